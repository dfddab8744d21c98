// Reads request bodies: bounded bytes from a stream, JSON of bounded depth from a text. fastify hands over the raw text, so that every
// error has the shape of this API.

import { checkExactJson, InexactNumber } from "../../core/values/exact-json.ts"
import { ApiError, invalidField } from "../shared/errors.ts"

export const BODY_LIMIT = 1_048_576
/** Limit of routes without a key. */
export const OPEN_BODY_LIMIT = 16_384
const MAX_DEPTH = 64

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** Returns whether brackets outside of strings are nested deeper than `max`. The text need not be valid JSON. */
export const isTooDeep = (text: string, max = MAX_DEPTH): boolean => {
  if (text.length <= max) return false
  let depth = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (quoted) {
      if (char === BACKSLASH) i++
      else if (char === QUOTE) quoted = false
    } else if (char === QUOTE) quoted = true
    else if (char === OPEN_BRACE || char === OPEN_BRACKET) {
      if (++depth > max) return true
    } else if (char === CLOSE_BRACE || char === CLOSE_BRACKET) depth--
  }
  return false
}

/** Rejects infinite numbers, such as `1e999`: the database would store them as null. The depth of the value is bounded. */
const rejectInfinity = (value: unknown, name = ""): void => {
  if (value === Infinity || value === -Infinity) throw invalidField(name, "is a number that is too large")
  if (typeof value !== "object" || value === null) return
  if (Array.isArray(value)) for (const each of value) rejectInfinity(each, name)
  else for (const key in value) rejectInfinity((value as { [key: string]: unknown })[key], key)
}

/** Reads a binary body of at most `maxBytes`. */
export const collectBody = async (data: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of data) {
    bytes += piece.byteLength
    if (bytes > maxBytes) throw new ApiError("TOO_LARGE", `the body is larger than ${maxBytes} bytes; send less in one request`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** Returns why the numbers of a JSON body would change on their way to other tasks, or null. */
export const inexactNumberIn = (text: string): string | null => {
  try {
    checkExactJson(text)
    return null
  } catch (error) {
    if (error instanceof InexactNumber) return error.message
    throw error
  }
}

/** Parses a JSON body. Returns undefined when the body is empty. `anyNumbers`: the route checks with `inexactNumberIn`. */
export const parseJson = (text: string, anyNumbers = false): unknown => {
  if (text.trim() === "") return undefined
  if (isTooDeep(text)) throw new ApiError("VALIDATION_ERROR", `the body is nested more than ${MAX_DEPTH} levels deep`)
  try {
    const value: unknown = JSON.parse(text)
    if (anyNumbers) return value
    rejectInfinity(value)
    const inexact = inexactNumberIn(text)
    if (inexact !== null) throw new ApiError("VALIDATION_ERROR", `the body contains ${inexact}`)
    return value
  } catch (error) {
    if (error instanceof ApiError) throw error
    const reason = error instanceof Error ? error.message.split("\n")[0]!.slice(0, 200) : ""
    throw new ApiError("VALIDATION_ERROR", `the body is not JSON: ${reason}`)
  }
}
