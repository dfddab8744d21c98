// Compares a part of the zones, in a thread.

import { parentPort, workerData } from "node:worker_threads"
import { compareTicks, type ComparisonOptions } from "./compare.ts"

parentPort!.postMessage(compareTicks(workerData as ComparisonOptions))
