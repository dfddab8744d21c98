// The end of an engine comes, also when the store takes nothing any more or a task does not end: then what is left is told, and left.

import { finishesWithin } from "../finishes-within.ts"
import type { EngineOptions } from "../ports.ts"

/** For the last batches, beyond what tasks get to end. */
const FAREWELL_MS = 10_000

const UNTOLD =
  "ending though not all is written down: the store takes no batch, or a task does not end; what is left counts as lost, and is tried again"

export interface Left {
  attempts: number
  changes: number
}

/** `idle` resolves when nothing is left. */
export const drain = async (
  { clock, graceMs, log }: Pick<EngineOptions, "clock" | "graceMs" | "log">,
  { patienceMs, idle, left }: { patienceMs: number; idle: Promise<void>; left: () => Left },
): Promise<void> => {
  if (!(await finishesWithin(clock, patienceMs + graceMs + FAREWELL_MS, idle))) log.error(left(), UNTOLD)
}

/** The last thing an engine does, or the first after a start that failed: what was started would keep the process alive. */
export const stopParts = async ({ executors, evaluator }: Pick<EngineOptions, "executors" | "evaluator">): Promise<void> => {
  for (const executor of executors.values()) await executor.stop?.()
  await evaluator.stop()
}
