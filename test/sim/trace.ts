// The trace of a simulation, line by line: its hash shows that a seed replays exactly, its tail is part of the report of a failure.

import { createHash } from "node:crypto"

const TAIL_LINES = 60

export class Trace {
  readonly #hash = createHash("sha256")
  readonly #print: ((line: string) => void) | null
  #tail: string[] = []
  #lines = 0

  constructor(print: ((line: string) => void) | null) {
    this.#print = print
  }

  add(ms: number, text: string): void {
    const line = `${String(ms).padStart(8)} ${text}`
    this.#lines += 1
    this.#hash.update(`${line}\n`)
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

  digest(): string {
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
