// A delay that an AbortSignal can end early.

import type { Clock } from "./core/model/ports.ts"

export const sleep = (clock: Pick<Clock, "after">, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const done = (): void => {
      cancel()
      signal?.removeEventListener("abort", done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal?.addEventListener("abort", done)
  })
