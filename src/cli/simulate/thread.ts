// Plays a part of the runs, in a thread.

import { parentPort, workerData } from "node:worker_threads"
import { SimulationBatch } from "./simulation-batch.ts"
import { playRuns } from "./tally.ts"
import type { ThreadData } from "./threads.ts"

const { scenario, firstSeed, count } = workerData as ThreadData
await using batch = await SimulationBatch.prepare(scenario)
parentPort!.postMessage(await playRuns(batch, firstSeed, count))
