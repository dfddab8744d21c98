// The system clock and randomness; simulations use their own. A timer runs outside of the request that set it. Also what this process is:
// its name, and the version of Ork.

import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { hostname } from "node:os"
import type { Clock, Random } from "../core/model/ports.ts"
import { leaveAudit } from "../store/contract/audit-scope.ts"

/** Longest delay of setTimeout, which fires at once for more. Longer waits take several timers. */
const MAX_TIMEOUT_MS = 2_147_483_647

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, fn) {
    if (ms <= 0) {
      const immediate = leaveAudit(() => setImmediate(fn))
      return () => clearImmediate(immediate)
    }
    let timer: NodeJS.Timeout
    const wait = (left: number): void => {
      timer = setTimeout(() => (left > MAX_TIMEOUT_MS ? wait(left - MAX_TIMEOUT_MS) : fn()), Math.min(left, MAX_TIMEOUT_MS))
    }
    leaveAudit(() => wait(ms))
    return () => clearTimeout(timer)
  },
}

const POOL_DIGITS = 65_536
let pool = ""
let used = POOL_DIGITS

export const systemRandom: Random = {
  next: () => Math.random(),
  hex128() {
    // Draws for 2,048 ids at once: a call of randomBytes costs more than making an id.
    if (used + 32 > pool.length) {
      pool = randomBytes(POOL_DIGITS / 2).toString("hex")
      used = 0
    }
    used += 32
    return pool.slice(used - 32, used)
  },
}

/** Returns the name of this process in lists. */
export const processName = (): string => `${hostname()}:${process.pid}`

const MANIFEST = new URL("../../package.json", import.meta.url)

export const orkVersion = (): string => {
  const manifest = JSON.parse(readFileSync(MANIFEST, "utf8")) as { version: string }
  return manifest.version
}
