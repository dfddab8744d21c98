// Reads bodies: text from the wire, JSON of bounded depth from text. fastify hands over the text, so that every refusal is ours.

import { ApiError, invalidField } from "./errors.ts"

export const BODY_LIMIT = 1_048_576
export const MAX_DEPTH = 64

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Deeper than `max` brackets, strings left out. Does not care whether the text is JSON. */
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
    else if (char === 0x7b || char === 0x5b) {
      if (++depth > max) return true
    } else if (char === 0x7d || char === 0x5d) depth--
  }
  return false
}

const MAY_OVERFLOW = /\d(?:[eE]\+?\d{3}|\d{308})/

/** `1e999` would become null on its way into the database. */
const finite = (name: string, value: unknown): unknown => {
  if (value === Infinity || value === -Infinity) throw invalidField(name, "is a number beyond all bounds")
  return value
}

/** The bytes of a body that is sent as such. */
export const collectBody = async (data: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of data) {
    bytes += piece.byteLength
    if (bytes > maxBytes) throw new ApiError("TOO_LARGE", `the body is larger than ${maxBytes} bytes; send less at once`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** `undefined` for no body at all. */
export const parseJson = (text: string): unknown => {
  if (text.trim() === "") return undefined
  if (isTooDeep(text)) throw new ApiError("VALIDATION_ERROR", `the body is nested more than ${MAX_DEPTH} levels deep`)
  try {
    return MAY_OVERFLOW.test(text) ? JSON.parse(text, finite) : JSON.parse(text)
  } catch (error) {
    if (error instanceof ApiError) throw error
    const reason = error instanceof Error ? error.message.split("\n")[0]!.slice(0, 200) : ""
    throw new ApiError("VALIDATION_ERROR", `the body is not JSON: ${reason}`)
  }
}
