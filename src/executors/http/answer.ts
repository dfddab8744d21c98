// From an answer to the output of an http task: { status, headers, body }, where a body that says it is JSON is parsed.

import type { Response } from "undici"
import type { Json } from "../../core/model/json.ts"

/** An hour: a server that asks for more is asked again then. */
const MOST_RETRY_AFTER_MS = 3_600_000
const TOLD_BODY = 300

/** The whole body; null: it is larger than `max` bytes. */
export const readBody = async (answer: Response, max: number): Promise<Buffer | null> => {
  const parts: Uint8Array[] = []
  let size = 0
  const body: AsyncIterable<Uint8Array> | null = answer.body
  if (body === null) return Buffer.alloc(0)
  for await (const part of body) {
    size += part.byteLength
    if (size > max) return null
    parts.push(part)
  }
  return Buffer.concat(parts)
}

export const answerOutput = (answer: Response, body: Buffer): { [field: string]: Json } => ({
  status: answer.status,
  headers: headersOf(answer),
  body: bodyOf(answer, body),
})

/** Cookies are somebody's way in: they are not kept. */
const headersOf = (answer: Response): { [name: string]: string } =>
  Object.fromEntries([...answer.headers].filter(([name]) => name !== "set-cookie"))

const bodyOf = (answer: Response, body: Buffer): Json => {
  if (body.length === 0) return null
  const text = body.toString("utf8")
  if (!/[/+]json\b/i.test(answer.headers.get("content-type") ?? "")) return text
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

/** The beginning of a body that tells what went wrong, on one line. */
export const bodyInWords = (body: Buffer): string => {
  const text = body
    .toString("utf8", 0, 4 * TOLD_BODY)
    .replaceAll(/\s+/g, " ")
    .trim()
  if (text === "") return ""
  return `: ${text.length > TOLD_BODY ? `${text.slice(0, TOLD_BODY)}…` : text}`
}

/** `Retry-After`, in seconds or as a date; null: it does not say. */
export const retryAfterMs = (header: string | null, now: number): number | null => {
  if (header === null) return null
  const text = header.trim()
  const wait = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(wait) ? null : Math.min(Math.max(wait, 0), MOST_RETRY_AFTER_MS)
}
