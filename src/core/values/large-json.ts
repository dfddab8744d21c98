// Parses a large JSON text in pieces. One call of JSON.parse cannot be interrupted: in a thread with a memory limit, a call that
// exceeds the limit ends the whole process. Between two pieces, the caller can check its memory and throw.

import type { Json, JsonObject } from "./json.ts"

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

const MAX_PIECE = 256 * 1024

export interface PieceOptions {
  /** Called before each piece. */
  check?: () => void
  /** Longest piece in bytes; a longer text without structure is one piece. */
  maxPiece?: number
}

/** Parses a text that is known to be valid JSON. */
export const parseInPieces = (text: Buffer, { check = () => {}, maxPiece = MAX_PIECE }: PieceOptions = {}): Json => {
  const parse = (open: string, from: number, to: number, close: string): Json => {
    check()
    return JSON.parse(open + text.toString("utf8", from, to) + close) as Json
  }

  const parseValue = (from: number, to: number): Json => {
    const start = skipSpace(text, from)
    const first = text[start]
    if (to - start <= maxPiece || (first !== OPEN_LIST && first !== OPEN_OBJECT)) return parse("", start, to, "")
    return first === OPEN_LIST ? parseList(start) : parseObject(start)
  }

  const parseList = (start: number): Json[] => {
    const list: Json[] = []
    for (const { from, to, isLong } of groups(text, start, maxPiece)) {
      if (isLong) list.push(parseValue(from, to))
      else for (const item of parse("[", from, to, "]") as Json[]) list.push(item)
    }
    return list
  }

  const parseObject = (start: number): JsonObject => {
    const object: JsonObject = {}
    for (const { from, to, isLong } of groups(text, start, maxPiece)) {
      if (isLong) {
        const key = skipSpace(text, from)
        const afterKey = endOfString(text, key)
        define(object, parse("", key, afterKey, "") as string, parseValue(text.indexOf(":", afterKey) + 1, to))
      } else {
        for (const [key, value] of Object.entries(parse("{", from, to, "}") as JsonObject)) define(object, key, value)
      }
    }
    return object
  }

  return parseValue(0, text.length)
}

/** Sets an own property, whatever its name. */
const define = (object: JsonObject, key: string, value: Json): void => {
  if (key === "__proto__") Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
  else object[key] = value
}

/** Yields the members of a list or object: a member that is longer than a piece alone, and others together as far as they fit. */
function* groups(text: Buffer, start: number, maxPiece: number): Generator<{ from: number; to: number; isLong: boolean }> {
  let from = start + 1
  for (let at = from; ;) {
    const end = endOfMember(text, at)
    const isLong = end - at > maxPiece
    if (at > from && (isLong || end - from > maxPiece)) {
      yield { from, to: at - 1, isLong: false }
      from = at
    }
    if (isLong) yield { from: at, to: end, isLong }
    const isLast = text[end] !== COMMA
    if (isLong) from = end + 1
    else if (isLast) yield { from, to: end, isLong }
    if (isLast) return
    at = end + 1
  }
}

/** Returns the position of the comma or bracket that ends a member of a list or object. */
const endOfMember = (text: Buffer, from: number): number => {
  let depth = 0
  for (let at = from; at < text.length; at++) {
    switch (text[at]) {
      case QUOTE:
        at = endOfString(text, at) - 1
        break
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth++
        break
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        if (depth === 0) return at
        depth--
        break
      case COMMA:
        if (depth === 0) return at
        break
      default:
    }
  }
  throw new Error("the JSON text ends too early")
}

/** Returns the position after a string that begins at `from`. */
const endOfString = (text: Buffer, from: number): number => {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === BACKSLASH) at++
    else if (text[at] === QUOTE) return at + 1
  }
  throw new Error("the JSON text ends inside a string")
}

const skipSpace = (text: Buffer, from: number): number => {
  let at = from
  while (at < text.length && text[at]! <= 0x20) at++
  return at
}
