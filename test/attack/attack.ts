// An attack on a running server.

import type { Target } from "./target.ts"

export interface Attack {
  name: string
  /** Part of the slice that the tests run. */
  quick?: boolean
  /** Returns null when the server held, and otherwise what the attack achieved. */
  run(target: Target): Promise<string | null>
}

/** Longest response time of /health during one request. */
export const MAX_DELAY_MS = 100
/** Memory that one request may add. */
export const MAX_GROWTH_MB = 64

/** Holds when the requests of `attack` delay others by at most 100 ms and add at most 64 MB. A machine under load gets three tries. */
export const stall = (name: string, attack: (target: Target) => Promise<unknown>): Attack => ({
  name,
  async run(target) {
    let least = { delayMs: Number.POSITIVE_INFINITY, grownMb: Number.POSITIVE_INFINITY }
    for (let round = 0; round < 3; round++) {
      const seen = await target.watch(() => attack(target))
      least = { delayMs: Math.min(least.delayMs, seen.delayMs), grownMb: Math.min(least.grownMb, seen.grownMb) }
      if (least.delayMs <= MAX_DELAY_MS && least.grownMb <= MAX_GROWTH_MB) return target.alive ? null : "the server ended"
    }
    return `/health took up to ${Math.round(least.delayMs)} ms, and memory grew by ${Math.round(least.grownMb)} MB`
  },
})
