// The trace of a simulation, line by line: its hash shows that a seed replays exactly, its tail is part of the report of a failure.

import { createHash } from "node:crypto"

const TAIL_LINES = 60
/** Lines are hashed together up to about this length: a call of the hash costs more than a line. */
const BLOCK_LENGTH = 1 << 14

export class Trace {
  readonly #hash = createHash("sha256")
  readonly #print: ((line: string) => void) | null
  #tail: string[] = []
  /** Lines that are not hashed yet. */
  #block = ""
  #lines = 0

  constructor(print: ((line: string) => void) | null) {
    this.#print = print
  }

  add(ms: number, text: string): void {
    const line = `${String(ms).padStart(8)} ${text}`
    this.#lines += 1
    this.#block += `${line}\n`
    if (this.#block.length > BLOCK_LENGTH) this.#hashBlock()
    this.#print?.(line)
    this.#tail.push(line)
    if (this.#tail.length > 2 * TAIL_LINES) this.#tail = this.#tail.slice(-TAIL_LINES)
  }

  get lines(): number {
    return this.#lines
  }

  get tail(): string[] {
    return this.#tail.slice(-TAIL_LINES)
  }

  #hashBlock(): void {
    this.#hash.update(this.#block)
    this.#block = ""
  }

  digest(): string {
    this.#hashBlock()
    return this.#hash.copy().digest("hex").slice(0, 16)
  }
}

/** An invariant does not hold. */
export class Violation extends Error {
  override readonly name = "Violation"
  readonly invariant: string

  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`)
    this.invariant = invariant
  }
}
