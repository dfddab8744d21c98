// Random numbers of a seed, for engines in virtual time.

import { hash } from "node:crypto"
import type { Random } from "../../core/model/ports.ts"

/** Returns numbers that are the same for the same seed. */
export const seededRandom = (seed: number | string): Random => {
  let drawn = 0
  const draw = (): string => hash("sha256", `${seed} ${++drawn}`)
  return { next: () => Number.parseInt(draw().slice(0, 8), 16) / 2 ** 32, hex128: () => draw().slice(0, 32) }
}
