// An end for what may have none of its own.

import type { Clock } from "../core/model/ports.ts"

/** False: it took longer, and is left alone. Rejects as the work does. */
export const finishesWithin = (clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => resolve(false))
    work.then(() => resolve(true), reject).finally(cancel)
  })
