// Checks that a stream of bytes is one JSON value, without building it and in constant memory (one entry per level of nesting).
// Used for outputs that are stored as objects, which may be large. Numbers that would change on their way to other tasks are problems.

import { inexactNumber } from "../core/values/exact-json.ts"

const MAX_DEPTH = 10_000
const MAX_WORD = 1024

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const LETTER_U = 0x75

const table = (characters: string): Uint8Array => {
  const flags = new Uint8Array(256)
  for (const character of characters) flags[character.charCodeAt(0)] = 1
  return flags
}

const SPACE = table(" \t\n\r")
const ESCAPED = table('"\\/bfnrt')
const HEX = table("0123456789abcdefABCDEF")
/** Characters of numbers and of `true`, `false` and `null`. */
const WORD = table("0123456789+-.eEtrufalsn")
const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/
const NAMES = new Set(["true", "false", "null"])

type Expect = "value" | "firstValue" | "firstKey" | "key" | "colon" | "commaOrEnd" | "nothing"

export class JsonValidator {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
  readonly #closers: number[] = []
  #expect: Expect = "value"
  #mode: "between" | "string" | "escape" | "unicode" | "word" = "between"
  #word = ""
  #hexLeft = 0
  #stringIsKey = false
  #problem: string | null = null

  /** Returns the problem as soon as there is one. */
  push(chunk: Uint8Array): string | null {
    if (this.#problem !== null) return this.#problem
    try {
      this.#decoder.decode(chunk, { stream: true })
      this.#problem = this.#scan(chunk)
    } catch {
      this.#problem = "it is not valid UTF-8"
    }
    return this.#problem
  }

  end(): string | null {
    if (this.#problem !== null) return this.#problem
    try {
      this.#decoder.decode()
    } catch {
      return (this.#problem = "it ends inside a character")
    }
    if (this.#mode === "word") this.#problem = this.#endWord()
    if (this.#problem === null && (this.#mode !== "between" || this.#expect !== "nothing")) this.#problem = "it ends too early"
    return this.#problem
  }

  #scan(chunk: Uint8Array): string | null {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    for (let i = 0; i < bytes.length;) {
      if (this.#mode === "string") {
        while (i < bytes.length && bytes[i]! !== QUOTE && bytes[i]! !== BACKSLASH && bytes[i]! >= 0x20) i++
        if (i < bytes.length) {
          const problem = this.#inString(bytes[i++]!)
          if (problem !== null) return problem
        }
      } else if (this.#mode === "word") {
        const start = i
        while (i < bytes.length && WORD[bytes[i]!] === 1) i++
        this.#word += bytes.toString("latin1", start, Math.min(i, start + MAX_WORD))
        if (this.#word.length >= MAX_WORD) return "a number is too long"
        const problem = i < bytes.length ? this.#endWord() : null
        if (problem !== null) return problem
      } else {
        const problem = this.#step(bytes[i++]!)
        if (problem !== null) return problem
      }
    }
    return null
  }

  #inString(byte: number): string | null {
    if (byte === QUOTE) {
      this.#mode = "between"
      if (this.#stringIsKey) this.#expect = "colon"
      else this.#endValue()
    } else if (byte === BACKSLASH) {
      this.#mode = "escape"
    } else {
      return "a string contains a control character"
    }
    return null
  }

  #step(byte: number): string | null {
    if (this.#mode === "escape") {
      this.#mode = byte === LETTER_U ? "unicode" : "string"
      this.#hexLeft = 4
      return byte === LETTER_U || ESCAPED[byte] === 1 ? null : `bad escape \\${String.fromCharCode(byte)}`
    }
    if (this.#mode === "unicode") {
      if (--this.#hexLeft === 0) this.#mode = "string"
      return HEX[byte] === 1 ? null : "bad \\u escape"
    }
    return SPACE[byte] === 1 ? null : this.#token(byte)
  }

  #token(byte: number): string | null {
    switch (this.#expect) {
      case "firstValue":
        return byte === CLOSE_LIST ? this.#close(byte) : this.#beginValue(byte)
      case "value":
        return this.#beginValue(byte)
      case "firstKey":
        return byte === CLOSE_OBJECT ? this.#close(byte) : this.#beginKey(byte)
      case "key":
        return this.#beginKey(byte)
      case "colon":
        this.#expect = "value"
        return byte === COLON ? null : unexpected('":"', byte)
      case "commaOrEnd":
        if (byte !== COMMA) return this.#close(byte)
        this.#expect = this.#closers.at(-1) === CLOSE_OBJECT ? "key" : "value"
        return null
      case "nothing":
        return unexpected("nothing after the value", byte)
      default:
        return this.#expect satisfies never
    }
  }

  #beginKey(byte: number): string | null {
    this.#mode = "string"
    this.#stringIsKey = true
    return byte === QUOTE ? null : unexpected("a key", byte)
  }

  #beginValue(byte: number): string | null {
    if (byte === QUOTE) {
      this.#mode = "string"
      this.#stringIsKey = false
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      if (this.#closers.length >= MAX_DEPTH) return `it is nested deeper than ${MAX_DEPTH} levels`
      this.#closers.push(byte === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_LIST)
      this.#expect = byte === OPEN_OBJECT ? "firstKey" : "firstValue"
    } else if (WORD[byte] === 1) {
      this.#mode = "word"
      this.#word = String.fromCharCode(byte)
    } else {
      return unexpected("a value", byte)
    }
    return null
  }

  #close(byte: number): string | null {
    if (this.#closers.at(-1) !== byte) return unexpected('"," or the end of a list or object', byte)
    this.#closers.pop()
    this.#endValue()
    return null
  }

  #endWord(): string | null {
    this.#mode = "between"
    if (!NAMES.has(this.#word) && !NUMBER.test(this.#word)) return `unknown value ${this.#word.slice(0, 40)}`
    this.#endValue()
    return NAMES.has(this.#word) ? null : inexactNumber(this.#word)
  }

  #endValue(): void {
    this.#expect = this.#closers.length > 0 ? "commaOrEnd" : "nothing"
  }
}

const unexpected = (wanted: string, byte: number): string =>
  `expected ${wanted}, found ${JSON.stringify(String.fromCharCode(byte))}`
