// Stops the parts of a server one after the other. A part that fails or takes too long is logged and left behind.

import { finishesWithin } from "../engine/finishes-within.ts"
import type { Logger } from "../engine/ports.ts"
import type { Clock } from "../core/model/ports.ts"

export interface ShutdownStep {
  part: string
  stop(): void | Promise<void> | undefined
  /** Default: 10 s. */
  timeoutMs?: number
  /** Called after the timeout. */
  force?(): void
}

const DEFAULT_TIMEOUT_MS = 10_000

export const runShutdownSteps = async (
  steps: readonly ShutdownStep[],
  { clock, log }: { clock: Clock; log: Logger },
): Promise<void> => {
  for (const { part, stop, timeoutMs = DEFAULT_TIMEOUT_MS, force } of steps) {
    try {
      if (await finishesWithin(clock, timeoutMs, Promise.resolve(stop()))) continue
      log.error({ part, seconds: timeoutMs / 1000 }, "a part of the server did not stop in time; continuing without it")
      force?.()
    } catch (error) {
      log.error({ part, error: String(error) }, "failed to stop a part of the server")
    }
  }
}
