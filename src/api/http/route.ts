// What a route is. The table of them (routes/table.ts) is all that the server mounts, the OpenAPI document shows and the tests of
// bad credentials go through. A handler parses nothing and checks no key: it makes one call and answers.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { z } from "zod"
import type { Api } from "./ports.ts"
import type { Caller } from "../auth/auth.ts"
import type { KeyScope } from "../../store/contract/keys.ts"

export type Method = "GET" | "POST" | "PUT" | "DELETE"

/** `text`: the handler gets the text and its content type (definitions, webhooks). */
export type BodySpec =
  | { schema: z.ZodType; required?: boolean }
  | { text: readonly string[]; example: string }
  /** The handler gets the bytes as they come, and bounds them itself. */
  | { bytes: true }

export interface ResponseSpec {
  description: string
  schema?: z.ZodType
  /** Other than JSON: what is sent, by content type. */
  types?: readonly string[]
  /** One entry of a stream. */
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
  /** What the audit log says the change was about, where the path does not. */
  target?: string
  details?: string
}

/** The handler has written to the connection itself. */
export const STREAMED = "streamed" as const

export interface RouteSpec<Params extends z.ZodType, Query extends z.ZodType, Body> {
  method: Method
  /** As OpenAPI writes it: `/runs/{id}`. Mounted below /api/v1 and at the root. */
  path: string
  /** Other paths for the same, not shown in the document. */
  aliases?: readonly string[]
  tag: string
  summary: string
  /** null: no key needed. */
  scope: KeyScope | null
  params?: Params
  query?: Query
  body?: BodySpec
  responses: Readonly<Record<number, ResponseSpec>>
  /** Refusals beyond the usual ones. */
  errors?: readonly number[]
  /** Set for every route that changes something: the action's name in the audit log. */
  audit?: string
  /** Left out of the table when the server lacks the part that it needs. */
  requires?: keyof Api["parts"]
  handle(call: Call<z.output<Params>, z.output<Query>, Body>): Promise<RouteResponse | typeof STREAMED> | RouteResponse
}

export type Route = RouteSpec<z.ZodType, z.ZodType, unknown>

/** Infers the types of a handler from its schemas. */
export function route<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, z.output<Body>>, "body"> & { body: { schema: Body; required?: boolean } },
): Route
export function route<Params extends z.ZodType, Query extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, TextBody>, "body"> & { body: { text: readonly string[]; example: string } },
): Route
export function route<Params extends z.ZodType, Query extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, AsyncIterable<Uint8Array>>, "body"> & { body: { bytes: true } },
): Route
export function route<Params extends z.ZodType, Query extends z.ZodType>(
  spec: Omit<RouteSpec<Params, Query, undefined>, "body">,
): Route
export function route(spec: Route): Route {
  return spec
}
