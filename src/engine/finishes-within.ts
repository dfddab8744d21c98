import type { Clock } from "../core/model/ports.ts"

/** Awaits work with a timeout. Returns false when it takes longer; the work itself continues. Rejects as the work does. */
export const finishesWithin = (clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => resolve(false))
    work.then(() => resolve(true), reject).finally(cancel)
  })
