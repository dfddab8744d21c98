// Converts a response to the output of an http task: { status, headers, body }, with a parsed body if its type is JSON.

import type { Response } from "undici"
import { jsonOrText } from "../../core/values/exact-json.ts"
import type { Json } from "../../core/values/json.ts"

const MAX_RETRY_AFTER_MS = 3_600_000
/** Characters of a body that an error quotes. */
const QUOTED_BODY = 300

/** Returns the body; null when it is larger than `max` bytes. */
export const readBody = async (response: Response, max: number): Promise<Buffer | null> => {
  const parts: Uint8Array[] = []
  let size = 0
  const body: AsyncIterable<Uint8Array> | null = response.body
  if (body === null) return Buffer.alloc(0)
  for await (const part of body) {
    size += part.byteLength
    if (size > max) return null
    parts.push(part)
  }
  return Buffer.concat(parts)
}

export const responseOutput = (response: Response, body: Buffer): { [field: string]: Json } => ({
  status: response.status,
  headers: headersOf(response),
  body: bodyOf(response, body),
})

/** Omits cookies, which are credentials. */
const headersOf = (response: Response): { [name: string]: string } =>
  Object.fromEntries([...response.headers].filter(([name]) => name !== "set-cookie"))

/** Parses a body. JSON whose numbers would change stays a text. */
const bodyOf = (response: Response, body: Buffer): Json => {
  if (body.length === 0) return null
  const text = body.toString("utf8")
  if (!/[/+]json\b/i.test(response.headers.get("content-type") ?? "")) return text
  return jsonOrText(text)
}

/** Returns the start of an error's body on one line, with a colon before it; empty for an empty body. */
export const describeBody = (body: Buffer): string => {
  const text = body
    .toString("utf8", 0, 4 * QUOTED_BODY)
    .replaceAll(/\s+/g, " ")
    .trim()
  if (text === "") return ""
  return `: ${text.length > QUOTED_BODY ? `${text.slice(0, QUOTED_BODY)}…` : text}`
}

/**
 * Parses `Retry-After` in seconds or as a date, limited to an hour. Returns null when it is missing or invalid, or when that time has
 * passed: the task's own back-off applies then.
 */
export const retryAfterMs = (header: string | null, now: number): number | null => {
  if (header === null) return null
  const text = header.trim()
  const wait = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : HTTP_DATE.test(text) ? Date.parse(text) - now : Number.NaN
  return wait > 0 ? Math.min(wait, MAX_RETRY_AFTER_MS) : null
}

/** `Date.parse` accepts other texts too, such as `1.5`. */
const HTTP_DATE = /^[A-Z][a-z]+,? .*GMT$/
