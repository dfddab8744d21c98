// Seeded random numbers, the same on every machine. Each use has a stream of its own, named by labels, so that one more number in one
// place does not change the others. A label is part of the seed: another label means another simulation.

import type { Random } from "../../src/core/model/ports.ts"

/** Hashes texts and numbers to 32 bits. */
export const hash = (...parts: (string | number)[]): number => {
  let h = 0x811c9dc5
  for (const char of parts.join("|")) h = Math.imul(h ^ char.codePointAt(0)!, 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

export class Rng implements Random {
  #state: number

  constructor(...seed: (string | number)[]) {
    this.#state = hash(...seed)
  }

  #bits(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0
    let z = this.#state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }

  next(): number {
    return this.#bits() / 2 ** 32
  }

  hex128(): string {
    return Array.from({ length: 4 }, () => this.#bits().toString(16).padStart(8, "0")).join("")
  }

  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)]!
  }
}
