// The end of a server, part by part. One that fails, or takes too long, is told and left, so that the rest and the end still come.

import { finishesWithin } from "../engine/finishes-within.ts"
import type { Logger } from "../engine/ports.ts"
import type { Clock } from "../core/model/ports.ts"

export interface Step {
  part: string
  end(): void | Promise<void> | undefined
  /** 10 s unless said. */
  withinMs?: number
  /** What to do when it took longer. */
  force?(): void
}

const WITHIN_MS = 10_000

export const takeSteps = async (steps: readonly Step[], { clock, log }: { clock: Clock; log: Logger }): Promise<void> => {
  for (const { part, end, withinMs = WITHIN_MS, force } of steps) {
    try {
      if (await finishesWithin(clock, withinMs, Promise.resolve(end()))) continue
      log.error({ part, seconds: withinMs / 1000 }, "a part of the server did not end in time; going on without it")
      force?.()
    } catch (error) {
      log.error({ part, error: String(error) }, "a part of the server did not end as it should")
    }
  }
}
