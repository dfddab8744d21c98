// The real clock and real randomness. A simulation has its own.

import { randomBytes } from "node:crypto"
import type { Clock, Random } from "../core/model/ports.ts"

/** setTimeout fires at once for more than 2^31-1 ms; a longer wait is taken in steps. */
const LONGEST_MS = 2_147_483_647

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, fn) {
    if (ms <= 0) {
      const immediate = setImmediate(fn)
      return () => clearImmediate(immediate)
    }
    let timer: NodeJS.Timeout
    const wait = (left: number): void => {
      timer = setTimeout(() => (left > LONGEST_MS ? wait(left - LONGEST_MS) : fn()), Math.min(left, LONGEST_MS))
    }
    wait(ms)
    return () => clearTimeout(timer)
  },
}

const POOL = 65_536
let pool = ""
let used = POOL

export const systemRandom: Random = {
  next: () => Math.random(),
  hex128() {
    // One call for 2,048 ids: randomBytes costs more than the id around it.
    if (used + 32 > pool.length) {
      pool = randomBytes(POOL / 2).toString("hex")
      used = 0
    }
    used += 32
    return pool.slice(used - 32, used)
  },
}
