// Repeats a call of the store while the store is not available: a durable function outlives an outage of its database.

import type { Clock } from "../../core/model/ports.ts"
import { StoreUnavailable } from "../../store/contract/errors.ts"

const REPEAT_MS = 500

/** `isStopped`: whether the activation has ended, which rejects with the error of the store. */
export const untilAvailable = async <Value>(
  call: () => Promise<Value>,
  { clock, isStopped }: { clock: Clock; isStopped: () => boolean },
): Promise<Value> => {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || isStopped()) throw error
      await new Promise<void>((resolve) => clock.after(REPEAT_MS, resolve))
    }
  }
}
