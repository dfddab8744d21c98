// Plays many runs on all cores, a part of the seeds on each. The result does not depend on the number of threads.

import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import { SimulationBatch } from "./simulation-batch.ts"
import type { Scenario } from "./simulation.ts"
import { joinTallies, playRuns, type Tally } from "./tally.ts"

export interface ThreadData {
  scenario: Scenario
  firstSeed: number
  count: number
}

/** TypeScript in a checkout, JavaScript in the built package. */
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./thread.ts" : "./thread.js", import.meta.url)

/** Runs for which a thread is worth its start. */
const MIN_RUNS_PER_THREAD = 100

/** Throws an InputError if the workflow does not succeed without faults. */
export const playAll = async (scenario: Scenario, firstSeed: number, runs: number): Promise<Tally> => {
  await using batch = await SimulationBatch.prepare(scenario)
  const parts = Math.max(1, Math.min(availableParallelism(), Math.floor(runs / MIN_RUNS_PER_THREAD)))
  const starts = Array.from({ length: parts + 1 }, (_, i) => firstSeed + Math.floor((runs * i) / parts))
  const tallies = starts.slice(0, -1).map((first, i) => {
    const count = starts[i + 1]! - first
    return i === 0 ? playRuns(batch, first, count) : playInThread({ scenario, firstSeed: first, count })
  })
  return joinTallies(await Promise.all(tallies))
}

const playInThread = (data: ThreadData): Promise<Tally> =>
  new Promise((resolve, reject) => {
    const thread = new Worker(THREAD, { workerData: data })
    thread.on("message", resolve)
    thread.on("error", reject)
  })
