// Takes secrets out of what a task says: every occurrence of a value becomes `***`, also one that is split between two writes.

const MASK = Buffer.from("***")
/** Shorter values would hide half of every log. */
const MIN_LENGTH = 3

const valuesOf = (secrets: readonly string[]): Buffer[] =>
  [...new Set(secrets.flatMap((secret) => [secret, ...secret.split("\n")]))]
    .filter((value) => value.length >= MIN_LENGTH)
    .map((value) => Buffer.from(value))
    .toSorted((a, b) => b.length - a.length)

/** Null: nothing to take out. */
export const createMask = (secrets: readonly string[]): Mask | null => {
  const values = valuesOf(secrets)
  return values.length === 0 ? null : new Mask(values)
}

export const maskText = (text: string, secrets: readonly string[]): string => {
  const mask = createMask(secrets)
  return mask === null ? text : Buffer.concat([mask.add(Buffer.from(text)), mask.end()]).toString("utf8")
}

/** One stream of bytes. Holds back what may be the beginning of a secret until more is known. */
export class Mask {
  readonly #values: readonly Buffer[]
  #held: Buffer = Buffer.alloc(0)

  constructor(values: readonly Buffer[]) {
    this.#values = values
  }

  add(bytes: Uint8Array): Buffer {
    return this.#scan(this.#held.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]), false)
  }

  /** What was held back. */
  end(): Buffer {
    return this.#scan(this.#held, true)
  }

  #scan(bytes: Buffer, last: boolean): Buffer {
    const out: Buffer[] = []
    let from = 0
    for (;;) {
      const found = this.#first(bytes, from)
      if (found === null) break
      out.push(bytes.subarray(from, found.at), MASK)
      from = found.at + found.length
    }
    const keep = last ? bytes.length : Math.max(from, this.#open(bytes, from))
    out.push(bytes.subarray(from, keep))
    this.#held = last ? Buffer.alloc(0) : Buffer.from(bytes.subarray(keep))
    return Buffer.concat(out)
  }

  #first(bytes: Buffer, from: number): { at: number; length: number } | null {
    let best: { at: number; length: number } | null = null
    for (const value of this.#values) {
      const at = bytes.indexOf(value, from)
      if (at !== -1 && (best === null || at < best.at)) best = { at, length: value.length }
    }
    return best
  }

  /** Where the end of `bytes` may be the beginning of a value. */
  #open(bytes: Buffer, from: number): number {
    let open = bytes.length
    for (const value of this.#values) {
      for (let length = Math.min(value.length - 1, bytes.length - from); length > bytes.length - open; length--) {
        if (bytes.subarray(bytes.length - length).equals(value.subarray(0, length))) open = bytes.length - length
      }
    }
    return open
  }
}
