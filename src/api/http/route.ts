// The description of a route. The server mounts the table of all routes (routes/table.ts), the OpenAPI document lists them, and the tests
// of bad credentials go through them. A handler neither parses nor authenticates: it makes one call and returns a response.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { z } from "zod"
import type { Api } from "./ports.ts"
import type { Caller } from "../auth/auth.ts"
import type { KeyScope } from "../../store/contract/keys.ts"

export type Method = "GET" | "POST" | "PUT" | "DELETE"

export type BodySpec =
  /** `anyNumbers`: the handler decides about numbers that would change (`inexactNumberIn`); otherwise they are rejected. */
  | { schema: z.ZodType; required?: boolean; anyNumbers?: true }
  /** Content types of a text body (definitions, webhooks). The handler gets the text and its content type. */
  | { text: readonly string[]; example: string }
  /** The handler gets the stream of bytes and limits its size. */
  | { bytes: true }

export interface ResponseSpec {
  description: string
  schema?: z.ZodType
  /** Content types of a response that is not JSON. */
  types?: readonly string[]
  /** Schema of one entry of a stream. */
  lines?: z.ZodType
}

export interface TextBody {
  text: string
  type: string
}

export interface Call<Params, Query, Body> {
  params: Params
  query: Query
  body: Body
  caller: Caller
  request: FastifyRequest
  reply: FastifyReply
  api: Api
}

export interface RouteResponse {
  status: number
  body?: unknown
  headers?: Readonly<Record<string, string>>
  /** False when the request changed nothing, so that the audit log has no entry of it. */
  audit?: false
}

/** Returned by a handler that wrote to the connection itself. */
export const STREAMED = "streamed" as const

export interface RouteSpec<Params extends z.ZodType, Query extends z.ZodType, Body> {
  method: Method
  /** Path in OpenAPI's notation: `/runs/{id}`. Mounted below /api/v1 and at the root. */
  path: string
  /** Further paths of the route, which the OpenAPI document does not list. */
  aliases?: readonly string[]
  /** Section of the OpenAPI document. Default: that of the file, in routes/table.ts. */
  tag?: string
  summary: string
  /** null: no key required. */
  scope: KeyScope | null
  /**
   * Says what the limits of a caller to some workflows mean for a route that names neither a workflow nor a run: the route lists what the
   * caller may see, checks the workflow of a definition, serves every caller with the scope, or serves callers without limits (default).
   */
  concerns?: "list" | "definition" | "caller" | "server"
  /** Checks what a caller without a key proves otherwise (a token, a signature), before the body is read. Throws to reject. */
  admit?(call: { params: z.output<Params>; request: FastifyRequest; api: Api }): Promise<void> | void
  /** Default: 1 MB, and 16 KB without a key. */
  bodyLimit?: number
  params?: Params
  query?: Query
  body?: BodySpec
  responses: Readonly<Record<number, ResponseSpec>>
  /** Error statuses beyond those of every route. */
  errors?: readonly number[]
  /** Name of the action in the audit log. Set for every route that changes something. `describeAction` adds to the entry. */
  audit?: string
  /** Optional part of the server that the route requires. The route is not mounted when the part is missing. */
  requires?: keyof Api["parts"]
  handle(call: Call<z.output<Params>, z.output<Query>, Body>): Promise<RouteResponse | typeof STREAMED> | RouteResponse
}

export type UntaggedRoute = RouteSpec<z.ZodType, z.ZodType, unknown>

export type Route = UntaggedRoute & { tag: string }

/** Returns what the limits of a caller apply to: the workflow or run in the path, or what the route declares. */
export const concernsOf = ({ path, concerns }: Pick<Route, "path" | "concerns">): "workflow" | "run" | Route["concerns"] => {
  if (concerns !== undefined) return concerns
  return path.startsWith("/workflows/{name}") ? "workflow" : path.startsWith("/runs/{id}") ? "run" : undefined
}

/** Infers the types of a handler from its schemas. */
export function route<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, z.output<Body>>, "body"> & {
    body: { schema: Body; required?: boolean; anyNumbers?: true }
  },
): UntaggedRoute
export function route<Params extends z.ZodType, Query extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, TextBody>, "body"> & { body: { text: readonly string[]; example: string } },
): UntaggedRoute
export function route<Params extends z.ZodType, Query extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, AsyncIterable<Uint8Array>>, "body"> & { body: { bytes: true } },
): UntaggedRoute
export function route<Params extends z.ZodType, Query extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, undefined>, "body">,
): UntaggedRoute
export function route(spec: UntaggedRoute): UntaggedRoute {
  return spec
}
