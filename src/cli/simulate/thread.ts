// Plays a part of the runs, in a thread.

import { parentPort, workerData } from "node:worker_threads"
import { Campaign } from "./campaign.ts"
import { playRuns } from "./tally.ts"
import type { ThreadData } from "./threads.ts"

const { scenario, firstSeed, count } = workerData as ThreadData
await using campaign = await Campaign.prepare(scenario)
parentPort!.postMessage(await playRuns(campaign, firstSeed, count))
