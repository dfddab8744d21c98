// Generates the OpenAPI 3.1 document from the table of routes. The schemas of the document are those that validate the requests.

import { z } from "zod"
import { error } from "../../protocol/api/common.ts"
import type { ResponseSpec, BodySpec, Route } from "./route.ts"
import { BYTES, PREFIX } from "./mount.ts"

export type JsonSchema = { [keyword: string]: unknown }

export interface OpenApi {
  openapi: "3.1.0"
  info: { title: string; version: string; description: string }
  servers: { url: string }[]
  tags: { name: string }[]
  paths: { [path: string]: { [method: string]: Operation } }
  components: { schemas: { [name: string]: JsonSchema }; securitySchemes: JsonSchema }
}

export interface Operation {
  operationId: string
  tags: string[]
  summary: string
  servers?: { url: string }[]
  security: { [scheme: string]: string[] }[]
  "x-scope": string | null
  parameters: Parameter[]
  requestBody?: { required: boolean; content: { [type: string]: { schema: JsonSchema; example?: unknown } } }
  responses: { [status: string]: { description: string; content?: { [type: string]: { schema: JsonSchema } } } }
}

export interface Parameter {
  name: string
  in: "path" | "query"
  required: boolean
  description?: string
  schema: JsonSchema
}

const DESCRIPTION =
  "Workflows, runs, tasks, jobs and their events. Every list takes `limit` and `cursor`. Every error has the same shape."

const ERRORS: Readonly<Record<number, string>> = {
  400: "The request is invalid",
  401: "The key is missing or unknown",
  403: "The key lacks the scope",
  404: "The resource does not exist",
  409: "The current state does not allow this",
  413: "The body is too large",
  415: "The body has the wrong type",
  429: "This address sent too many wrong keys",
  503: "The database is unavailable; Retry-After gives the seconds to wait",
}

/** Converts schemas to JSON Schema and collects those that have a name. */
class Schemas {
  readonly named: { [name: string]: JsonSchema } = {}

  convert(schema: z.ZodType, io: "input" | "output"): JsonSchema {
    const { $schema: _, $defs, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" }) as JsonSchema
    for (const [name, definition] of Object.entries(($defs ?? {}) as { [name: string]: JsonSchema })) {
      this.named[name] = referToComponents(definition) as JsonSchema
    }
    return referToComponents(rest) as JsonSchema
  }
}

/** Rewrites references into `$defs` to the components of the document. */
const referToComponents = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(referToComponents)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) =>
      key === "$ref" && typeof each === "string"
        ? [key, each.replace("#/$defs/", "#/components/schemas/")]
        : [key, referToComponents(each)],
    ),
  )
}

export const openapi = (routes: readonly Route[], version: string): OpenApi => {
  const schemas = new Schemas()
  const errorSchema = schemas.convert(error, "output")
  const paths: OpenApi["paths"] = {}
  for (const route of routes) {
    const methods = (paths[route.path] ??= {})
    methods[route.method.toLowerCase()] = operationOf(schemas, route, errorSchema)
  }
  return {
    openapi: "3.1.0",
    info: { title: "Ork", version, description: DESCRIPTION },
    servers: [{ url: PREFIX }, { url: "/" }],
    tags: [...new Set(routes.map((route) => route.tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: schemas.named,
      securitySchemes: {
        key: { type: "apiKey", in: "header", name: "X-API-Key" },
        bearer: { type: "http", scheme: "bearer" },
        session: { type: "apiKey", in: "cookie", name: "ork_session" },
      },
    },
  }
}

const operationOf = (schemas: Schemas, route: Route, errorSchema: JsonSchema): Operation => ({
  operationId: operationId(route),
  tags: [route.tag],
  summary: route.summary,
  ...(route.path.startsWith("/ui/") && { servers: [{ url: "/" }] }),
  security: route.scope === null ? [] : [{ key: [] }, { bearer: [] }, { session: [] }],
  "x-scope": route.scope,
  parameters: [...parameters(schemas, route.params, "path"), ...parameters(schemas, route.query, "query")],
  ...(route.body !== undefined && { requestBody: requestBody(schemas, route.body) }),
  responses: responses(schemas, route, errorSchema),
})

/** Returns the id of a route: `postRunsIdCancel` for `POST /runs/{id}/cancel`. */
const operationId = (route: Route): string =>
  route.method.toLowerCase() +
  route.path
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("")

const parameters = (schemas: Schemas, schema: z.ZodType | undefined, location: "path" | "query"): Parameter[] => {
  if (schema === undefined) return []
  const { properties = {}, required = [] } = schemas.convert(schema, "input") as {
    properties?: { [name: string]: JsonSchema }
    required?: string[]
  }
  return Object.entries(properties).map(([name, { description, ...field }]) => ({
    name,
    in: location,
    required: location === "path" || required.includes(name),
    ...(typeof description === "string" && { description }),
    schema: field,
  }))
}

const requestBody = (schemas: Schemas, body: BodySpec): NonNullable<Operation["requestBody"]> => {
  if ("schema" in body) {
    return {
      required: body.required === true,
      content: { "application/json": { schema: schemas.convert(body.schema, "input") } },
    }
  }
  if ("bytes" in body) return { required: true, content: { [BYTES]: { schema: { type: "string", format: "binary" } } } }
  const content = body.text.map((type) => [
    type,
    type === "application/json" ? { schema: { type: "object" } } : { schema: { type: "string" }, example: body.example },
  ])
  return { required: true, content: Object.fromEntries(content) as NonNullable<Operation["requestBody"]>["content"] }
}

const responses = (schemas: Schemas, route: Route, errorSchema: JsonSchema): Operation["responses"] => {
  const all: Operation["responses"] = {}
  for (const [status, spec] of Object.entries(route.responses)) all[status] = response(schemas, spec)
  for (const status of errorsOf(route)) {
    all[status] = { description: ERRORS[status]!, content: { "application/json": { schema: errorSchema } } }
  }
  return all
}

const response = (schemas: Schemas, spec: ResponseSpec): Operation["responses"][string] => {
  if (spec.schema !== undefined) {
    return {
      description: spec.description,
      content: { "application/json": { schema: schemas.convert(spec.schema, "output") } },
    }
  }
  if (spec.types === undefined) return { description: spec.description }
  const lines = spec.lines === undefined ? null : schemas.convert(spec.lines, "output")
  const content = spec.types.map((type) => [
    type,
    { schema: { type: "string", ...(lines !== null && type !== "text/plain" && { contentSchema: lines }) } },
  ])
  return { description: spec.description, content: Object.fromEntries(content) as { [type: string]: { schema: JsonSchema } } }
}

/** Returns the error statuses of a route. Every route may reject an unknown query parameter with 400. */
const errorsOf = (route: Route): number[] => {
  const errors = new Set<number>([400, 503, ...(route.errors ?? [])])
  if (route.scope !== null) for (const status of [401, 403, 429]) errors.add(status)
  if (route.params !== undefined) errors.add(404)
  if (route.method !== "GET") for (const status of [413, 415]) errors.add(status)
  return [...errors].toSorted((a, b) => a - b)
}
