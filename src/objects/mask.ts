// Masks secrets in logs and outputs: every occurrence of a value becomes `***`, also if it is split between two writes or escaped in
// JSON. Each line of a multi-line value is masked too. native/mask.c does the same for process tasks.

import type { Json } from "../core/values/json.ts"

export const MASK_TEXT = "***"
const MASK_BYTES = Buffer.from(MASK_TEXT)
/** Shorter values occur everywhere, so that masking them would make logs unreadable. */
const MIN_LENGTH = 3

/** Returns a text as JSON writers put it between quotes: as it is, and with non-ASCII characters escaped. */
const jsonForms = (text: string): string[] => {
  const plain = JSON.stringify(text).slice(1, -1)
  const ascii = plain.replaceAll(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
  return [plain, ascii]
}

const searchTexts = (secrets: readonly string[]): string[] =>
  [...new Set(secrets.flatMap((secret) => [secret, ...secret.split(/\r?\n/)]).flatMap((text) => [text, ...jsonForms(text)]))]
    .filter((text) => text.length >= MIN_LENGTH)
    .toSorted((a, b) => b.length - a.length)

/** Returns the byte sequences to mask, longest first. */
export const maskValues = (secrets: readonly string[]): Buffer[] =>
  secrets.length === 0
    ? []
    : searchTexts(secrets)
        .map((text) => Buffer.from(text))
        .toSorted((a, b) => b.length - a.length)

/** Returns null if there is nothing to mask. */
export const createMask = (secrets: readonly string[]): Mask | null => maskOf(maskValues(secrets))

export const maskOf = (values: readonly Buffer[]): Mask | null => (values.length === 0 ? null : new Mask(values))

export const maskText = (text: string, secrets: readonly string[]): string =>
  secrets.length === 0 ? text : maskBytes(Buffer.from(text), secrets).toString("utf8")

export const maskBytes = (bytes: Buffer, secrets: readonly string[]): Buffer => {
  const mask = createMask(secrets)
  return mask === null ? bytes : Buffer.concat([mask.add(bytes), mask.end()])
}

/** Masks secrets in the texts and field names of a value, and numbers that are a secret. */
export const maskJson = (value: Json, secrets: readonly string[]): Json => {
  const texts = secrets.length === 0 ? [] : searchTexts(secrets)
  return texts.length === 0 ? value : replaceInJson(value, texts)
}

const replaceInText = (text: string, texts: readonly string[]): string =>
  texts.reduce((masked, secret) => masked.replaceAll(secret, MASK_TEXT), text)

const replaceInJson = (value: Json, texts: readonly string[]): Json => {
  if (typeof value === "string") return replaceInText(value, texts)
  if (typeof value === "number") return texts.includes(String(value)) ? MASK_TEXT : value
  if (Array.isArray(value)) return value.map((item) => replaceInJson(item, texts))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [replaceInText(key, texts), replaceInJson(item, texts)]))
}

export const maskStream = (data: AsyncIterable<Uint8Array>, secrets: readonly string[]): AsyncIterable<Uint8Array> => {
  const mask = createMask(secrets)
  return mask === null ? data : applyMask(data, mask)
}

async function* applyMask(data: AsyncIterable<Uint8Array>, mask: Mask): AsyncGenerator<Uint8Array> {
  for await (const bytes of data) yield mask.add(bytes)
  yield mask.end()
}

/** Masks one stream of bytes. Holds back bytes that may be the beginning of a secret until more bytes follow. */
export class Mask {
  readonly #values: readonly Buffer[]
  /** 1 for each byte that begins a value. */
  readonly #firstBytes = new Uint8Array(256)
  #held: Buffer = Buffer.alloc(0)

  /** `values` must be sorted, longest first. */
  constructor(values: readonly Buffer[]) {
    this.#values = values
    for (const value of values) this.#firstBytes[value[0]!] = 1
  }

  add(bytes: Uint8Array): Buffer {
    return this.#replace(this.#held.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]), false)
  }

  /** Returns the bytes that were held back. */
  end(): Buffer {
    return this.#replace(this.#held, true)
  }

  /** Replaces, from left to right, the longest value at each position. Stops where a longer value may still follow. */
  #replace(bytes: Buffer, last: boolean): Buffer {
    const out: Buffer[] = []
    let from = 0
    let at = 0
    for (; at < bytes.length; at++) {
      if (this.#firstBytes[bytes[at]!] === 0) continue
      const length = this.#lengthAt(bytes, at, last)
      if (length === null) break
      if (length === 0) continue
      out.push(bytes.subarray(from, at), MASK_BYTES)
      from = at + length
      at = from - 1
    }
    out.push(bytes.subarray(from, at))
    this.#held = Buffer.from(bytes.subarray(at))
    return Buffer.concat(out)
  }

  /** Returns the length of the value at a position: 0 if there is none, null if more bytes are needed. */
  #lengthAt(bytes: Buffer, at: number, last: boolean): number | null {
    for (const value of this.#values) {
      const available = Math.min(value.length, bytes.length - at)
      if (bytes.compare(value, 0, available, at, at + available) !== 0) continue
      if (available === value.length) return available
      if (!last) return null
    }
    return 0
  }
}
