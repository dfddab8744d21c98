// An attack on a running server, and the limits that hold for each of its requests.

import type { Target } from "./target.ts"

export interface Attack {
  name: string
  /** Part of the slice that the tests run. */
  quick?: boolean
  /** Many requests or processes at once, for which the limits of a single request do not hold. */
  flood?: true
  /** Returns null when the server held, and otherwise what the attack achieved. */
  run(target: Target): Promise<string | null>
}

export interface Outcome {
  /** Effect of the attack; null if the server withstood it. */
  achieved: string | null
  delayMs: number
  grownMb: number
}

/** By how much longer than that of an idle server the longest response of /health may take during an attack. */
const MAX_DELAY_MS = 100
/** Memory that a request may add. */
const MAX_GROWTH_MB = 64
/** A machine under load gets more tries; the best one counts. */
const TRIES = 3

/** Carries out an attack. It also succeeds when it ends the server, or delays /health or adds memory beyond the limits. */
export const carryOut = async (attack: Attack, target: Target): Promise<Outcome> => {
  let least = { delayMs: Number.POSITIVE_INFINITY, grownMb: Number.POSITIVE_INFINITY }
  for (let round = 0; round < TRIES; round++) {
    let achieved: string | null = null
    const seen = await target.watch(async () => {
      achieved = await attack.run(target).catch((error: unknown) => `the attack could not be carried out: ${String(error)}`)
    })
    least = { delayMs: Math.min(least.delayMs, seen.delayMs), grownMb: Math.min(least.grownMb, seen.grownMb) }
    if (!target.alive) achieved ??= "the server ended"
    const isWithinLimits = least.delayMs <= MAX_DELAY_MS && least.grownMb <= MAX_GROWTH_MB
    if (achieved !== null || isWithinLimits || attack.flood) return { achieved, ...least }
  }
  const achieved = `/health took ${Math.round(least.delayMs)} ms longer than that of an idle server, and memory grew by ${Math.round(least.grownMb)} MB`
  return { achieved, ...least }
}
