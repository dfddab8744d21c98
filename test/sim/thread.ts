// A thread that plays a share of the seeds, and reports the outcome of each.

import { parentPort, workerData } from "node:worker_threads"
import { Simulator } from "./simulator.ts"
import type { Share } from "./threads.ts"

const port = parentPort!
const { store, seeds } = workerData as Share
let isStopped = false
port.once("message", () => (isStopped = true))

const simulator = await Simulator.create(store)
for (let i = 0; i < seeds.count && !isStopped; i++) port.postMessage(await simulator.run(seeds.from + i * seeds.every))
await simulator.close()
port.close()
