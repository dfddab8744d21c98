// Takes secrets out of what a task says: every occurrence of a value becomes `***`, also one that is split between two writes, one that
// stands in JSON with its escapes, and each line of a value that has several. native/mask.c does the same for process tasks.

import type { Json } from "../core/model/json.ts"

const STARS = "***"
const MASK = Buffer.from(STARS)
/** Shorter values would hide half of every log. */
const MIN_LENGTH = 3

/** As JSON writers put it between quotes: plain, and with everything but ASCII escaped. */
const jsonForms = (text: string): string[] => {
  const plain = JSON.stringify(text).slice(1, -1)
  const ascii = plain.replaceAll(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
  return [plain, ascii]
}

const searchTexts = (secrets: readonly string[]): string[] =>
  [...new Set(secrets.flatMap((secret) => [secret, ...secret.split(/\r?\n/)]).flatMap((text) => [text, ...jsonForms(text)]))]
    .filter((text) => text.length >= MIN_LENGTH)
    .toSorted((a, b) => b.length - a.length)

/** What is looked for, the longest first. */
export const maskValues = (secrets: readonly string[]): Buffer[] =>
  secrets.length === 0
    ? []
    : searchTexts(secrets)
        .map((text) => Buffer.from(text))
        .toSorted((a, b) => b.length - a.length)

/** Null: nothing to take out. */
export const createMask = (secrets: readonly string[]): Mask | null => maskOf(maskValues(secrets))

export const maskOf = (values: readonly Buffer[]): Mask | null => (values.length === 0 ? null : new Mask(values))

export const maskText = (text: string, secrets: readonly string[]): string =>
  secrets.length === 0 ? text : maskBytes(Buffer.from(text), secrets).toString("utf8")

export const maskBytes = (bytes: Buffer, secrets: readonly string[]): Buffer => {
  const mask = createMask(secrets)
  return mask === null ? bytes : Buffer.concat([mask.add(bytes), mask.end()])
}

/** Of a value: in its texts, in the names of its fields, and in numbers that are one. */
export const maskJson = (value: Json, secrets: readonly string[]): Json => {
  const texts = secrets.length === 0 ? [] : searchTexts(secrets)
  return texts.length === 0 ? value : maskedJson(value, texts)
}

const maskedText = (text: string, texts: readonly string[]): string =>
  texts.reduce((masked, secret) => masked.replaceAll(secret, STARS), text)

const maskedJson = (value: Json, texts: readonly string[]): Json => {
  if (typeof value === "string") return maskedText(value, texts)
  if (typeof value === "number") return texts.includes(String(value)) ? STARS : value
  if (Array.isArray(value)) return value.map((item) => maskedJson(item, texts))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [maskedText(key, texts), maskedJson(item, texts)]))
}

/** The same of a stream. */
export const maskStream = (data: AsyncIterable<Uint8Array>, secrets: readonly string[]): AsyncIterable<Uint8Array> => {
  const mask = createMask(secrets)
  return mask === null ? data : through(data, mask)
}

async function* through(data: AsyncIterable<Uint8Array>, mask: Mask): AsyncGenerator<Uint8Array> {
  for await (const bytes of data) yield mask.add(bytes)
  yield mask.end()
}

/** One stream of bytes. Holds back what may be the beginning of a secret until more is known. */
export class Mask {
  readonly #values: readonly Buffer[]
  readonly #first = new Uint8Array(256)
  #held: Buffer = Buffer.alloc(0)

  /** The longest first. */
  constructor(values: readonly Buffer[]) {
    this.#values = values
    for (const value of values) this.#first[value[0]!] = 1
  }

  add(bytes: Uint8Array): Buffer {
    return this.#scan(this.#held.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]), false)
  }

  /** What was held back. */
  end(): Buffer {
    return this.#scan(this.#held, true)
  }

  /** From left to right, at each place the longest value that stands there, or may yet when more has come. */
  #scan(bytes: Buffer, last: boolean): Buffer {
    const out: Buffer[] = []
    let from = 0
    let at = 0
    for (; at < bytes.length; at++) {
      if (this.#first[bytes[at]!] === 0) continue
      const length = this.#lengthAt(bytes, at, last)
      if (length === null) break
      if (length === 0) continue
      out.push(bytes.subarray(from, at), MASK)
      from = at + length
      at = from - 1
    }
    out.push(bytes.subarray(from, at))
    this.#held = Buffer.from(bytes.subarray(at))
    return Buffer.concat(out)
  }

  /** 0: no value stands there. null: one may. */
  #lengthAt(bytes: Buffer, at: number, last: boolean): number | null {
    for (const value of this.#values) {
      const known = Math.min(value.length, bytes.length - at)
      if (bytes.compare(value, 0, known, at, at + known) !== 0) continue
      if (known === value.length) return known
      if (!last) return null
    }
    return 0
  }
}
