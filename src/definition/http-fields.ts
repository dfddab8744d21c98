// Schemas of `http: { … }`, `url` and `headers` of a task: options and fields of its request.

import { z } from "zod"
import type { HttpDefinition, SecretDefinition } from "../core/model/definition.ts"
import { either, memory, record, strictObject, text } from "./schema-parts.ts"

const status = either('a status such as 404, or a class of them such as "4xx"', [
  z.int().min(100).max(599),
  text.regex(/^[1-5](?:\d\d|xx)$/, 'must be a status such as "404" or "4xx"'),
])

export const httpFields = strictObject({
  expect: z.array(status).min(1).optional(),
  retry_on: z.array(status).optional(),
  redirects: z.int().min(0).max(20).optional(),
  max_body: memory.optional(),
} satisfies Record<keyof HttpDefinition, z.ZodType>)

const secret = strictObject({ secret: text, prefix: text.optional() } satisfies Record<keyof SecretDefinition, z.ZodType>)

export const urlField = either("a text or { secret: NAME }", [text, secret])

export const headersField = record(
  either("a text, a number, true, false, null or { secret: NAME, prefix }", [text, z.number(), z.boolean(), z.null(), secret]),
)
