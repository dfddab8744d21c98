// The longest time without a start of a task, as the journal shows it while the campaign watches it.

import { setTimeout as delay } from "node:timers/promises"
import type { Journal } from "../journal.ts"

const POLL_MS = 25

/** Watches for `ms`, and on until a task starts, at most for `giveUpMs`. Returns the longest time without a start in milliseconds. */
export const longestGap = async (journal: Journal, { ms, giveUpMs }: { ms: number; giveUpMs: number }): Promise<number> => {
  const begun = performance.now()
  let known = journal.read().length
  let last = begun
  let longest = 0
  for (;;) {
    await delay(POLL_MS)
    const now = performance.now()
    longest = Math.max(longest, now - last)
    const entries = journal.read()
    const hasStarted = entries.slice(known).some(({ phase }) => phase === "start")
    known = entries.length
    if (hasStarted) last = now
    if ((last > begun && now - begun >= ms) || now - last >= giveUpMs) return longest
  }
}
