// Masks secrets in a JSON text of any size, piece by piece; the result is JSON. Masking the bytes as they are could change the structure of
// the text: a secret may be a number, or contain quotes.

import { StringDecoder } from "node:string_decoder"
import { type Mask, MASK_TEXT, maskOf, maskValues } from "./mask.ts"

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75
const NUMBER = /-?\d[\d.eE+-]*/g
const END_OF_NUMBER = /[\d.eE+-]{1,400}$/

/** Bytes that are masked in one tick. */
const SLICE_BYTES = 64 * 1024

/** Masks secrets in JSON. */
export async function* maskJsonStream(data: AsyncIterable<Uint8Array>, secrets: readonly string[]): AsyncGenerator<string> {
  const values = maskValues(secrets)
  if (values.length === 0) {
    yield* decoded(data)
    return
  }
  const mask = new JsonMask(values)
  for await (const bytes of data) {
    for (let at = 0; at < bytes.byteLength; at += SLICE_BYTES) {
      yield mask.add(bytes.subarray(at, at + SLICE_BYTES))
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  yield mask.end()
}

async function* decoded(data: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  for await (const bytes of data) yield decoder.decode(bytes, { stream: true })
}

class JsonMask {
  readonly #values: readonly Buffer[]
  readonly #texts: ReadonlySet<string>
  /** Bytes that need the next piece: a part of a number, a character or an escape sequence. */
  #held: Buffer = Buffer.alloc(0)
  /** The string that the last piece ended in; null outside of strings. */
  #string: StringMask | null = null

  constructor(values: readonly Buffer[]) {
    this.#values = values
    this.#texts = new Set(values.map(String))
  }

  add(bytes: Uint8Array): string {
    const text = Buffer.concat([this.#held, bytes])
    const out: string[] = []
    let at = 0
    while (at < text.length) {
      const next = this.#string === null ? this.#addOutside(text, at, out) : this.#addInside(text, at, this.#string, out)
      if (next === at) break
      at = next
    }
    this.#held = text.subarray(at)
    return out.join("")
  }

  /** Adds the text up to the next string, and that string if it is complete and without secrets. Returns where it stopped. */
  #addOutside(text: Buffer, at: number, out: string[]): number {
    const quote = text.indexOf(QUOTE, at)
    const outside = text.toString("latin1", at, quote === -1 ? text.length : quote)
    const held = quote === -1 ? (END_OF_NUMBER.exec(outside)?.[0].length ?? 0) : 0
    out.push(this.#maskNumbers(outside.slice(0, outside.length - held)))
    if (quote === -1) return text.length - held
    const { end, isClosed } = scanString(text, quote + 1)
    const content = isClosed ? text.toString("utf8", quote + 1, end) : null
    if (content !== null && !this.#mayContainSecret(content)) {
      out.push(`"${content}"`)
      return end + 1
    }
    out.push('"')
    this.#string = new StringMask(maskOf(this.#values)!)
    return quote + 1
  }

  #addInside(text: Buffer, at: number, string: StringMask, out: string[]): number {
    const { end, isClosed } = scanString(text, at)
    out.push(string.add(text.toString("utf8", at, end)))
    if (!isClosed) return end
    out.push(string.end(), '"')
    this.#string = null
    return end + 1
  }

  end(): string {
    return this.#maskNumbers(this.#held.toString("latin1"))
  }

  /** Returns whether a string may contain a secret: an escape sequence may stand for any character. */
  #mayContainSecret(content: string): boolean {
    if (content.includes("\\")) return true
    for (const value of this.#texts) if (content.includes(value)) return true
    return false
  }

  #maskNumbers(text: string): string {
    return text.replaceAll(NUMBER, (number) => (this.#texts.has(number) ? `"${MASK_TEXT}"` : number))
  }
}

/** Masks the content of one string. */
class StringMask {
  readonly #mask: Mask
  readonly #decoder = new StringDecoder("utf8")

  constructor(mask: Mask) {
    this.#mask = mask
  }

  /** Adds a part of a string. `content`: the part between its quotes, with whole escape sequences. */
  add(content: string): string {
    return escaped(this.#decoder.write(this.#mask.add(Buffer.from(JSON.parse(`"${content}"`) as string))))
  }

  end(): string {
    return escaped(this.#decoder.end(this.#mask.end()))
  }
}

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Returns where the string ends, or where the last whole character before the end of the text does. */
const scanString = (text: Buffer, from: number): { end: number; isClosed: boolean } => {
  let at = from
  while (at < text.length) {
    if (text[at] === QUOTE) return { end: at, isClosed: true }
    const length = lengthAt(text, at)
    if (at + length > text.length) break
    at += length
  }
  return { end: at, isClosed: false }
}

/** The start of an escape sequence for the second half of a character, as far as it has arrived. */
const SECOND_HALF = /^(?:\\(?:u(?:[dD](?:[c-fC-F])?)?)?)?$/

/** Returns the number of bytes of a character, or of an escape sequence; two escape sequences may be one character. */
const lengthAt = (text: Buffer, at: number): number => {
  const first = text[at]!
  if (first === BACKSLASH) {
    if (text[at + 1] !== LETTER_U) return 2
    const isFirstHalf = /^[dD][89abAB]/.test(text.toString("latin1", at + 2, at + 4))
    return isFirstHalf && SECOND_HALF.test(text.toString("latin1", at + 6, at + 10)) ? 12 : 6
  }
  if (first < 0xc0) return 1
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
}
