// Repeats a call of the store while the store is not available: a durable function outlives an outage of its database.

import type { Clock } from "../../core/model/ports.ts"
import { StoreUnavailable } from "../../store/contract/errors.ts"

const REPEAT_MS = 500

/** The store was not available when the activation ended. An error of this class never comes from the code of a user. */
export class Interrupted extends Error {}

interface Options {
  clock: Clock
  /** Returns whether the activation has ended, which rejects with Interrupted. */
  isStopped: () => boolean
  /** Errors of a user's code within the call, which do not repeat it. */
  ofCode: ReadonlySet<unknown>
}

export const untilAvailable = async <Value>(
  call: () => Promise<Value>,
  { clock, isStopped, ofCode }: Options,
): Promise<Value> => {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || ofCode.has(error)) throw error
      if (isStopped()) throw new Interrupted(error.message, { cause: error })
      await new Promise<void>((resolve) => clock.after(REPEAT_MS, resolve))
    }
  }
}
