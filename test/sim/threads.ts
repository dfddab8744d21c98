// Plays seeds in several threads, one per core.

import { Worker } from "node:worker_threads"
import type { Outcome, StoreKind } from "./simulator.ts"

/** The seeds `from`, `from + every`, …, of which there are `count`. */
export interface Seeds {
  from: number
  count: number
  every: number
}

export interface Share {
  store: StoreKind
  seeds: Seeds
}

const THREAD = new URL("./thread.ts", import.meta.url)

/** Splits seeds into shares of neighbouring seeds each time, so that all threads have about as much to do. */
const split = ({ from, count, every }: Seeds, parts: number): Seeds[] =>
  Array.from({ length: Math.min(parts, count) }, (_, i) => ({
    from: from + i * every,
    count: Math.ceil((count - i) / parts),
    every: every * parts,
  }))

/** Calls `played` after each seed, in no particular order. When it returns false, no further seed begins. */
export const playInThreads = async (
  { store, seeds }: Share,
  threads: number,
  played: (outcome: Outcome) => boolean,
): Promise<void> => {
  const workers = split(seeds, threads).map((share) => new Worker(THREAD, { workerData: { store, seeds: share } }))
  const stopAll = (): void => workers.forEach((worker) => worker.postMessage("stop"))
  const ends = workers.map(
    (worker) =>
      new Promise<void>((resolve, reject) => {
        worker.on("message", (outcome: Outcome) => {
          if (!played(outcome)) stopAll()
        })
        worker.on("error", reject)
        worker.on("exit", () => resolve())
      }),
  )
  await Promise.all(ends).finally(stopAll)
}
