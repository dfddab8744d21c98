// Splits a comparison over the cores.

import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import type { ComparisonOptions, ComparisonResult } from "./compare.ts"

const THREAD = new URL("./part.ts", import.meta.url)

export const compareOnAllCores = async (options: ComparisonOptions): Promise<ComparisonResult> => {
  const cores = availableParallelism()
  const parts = Array.from({ length: cores }, (_, i) => options.zones.filter((__, j) => j % cores === i))
  const results = await Promise.all(parts.map((zones) => inThread({ ...options, zones })))
  return {
    expressions: options.count,
    windows: results.reduce((sum, { windows }) => sum + windows, 0),
    ticks: results.reduce((sum, { ticks }) => sum + ticks, 0),
    differences: [...new Set(results.flatMap(({ differences }) => differences))],
  }
}

const inThread = (options: ComparisonOptions): Promise<ComparisonResult> =>
  new Promise((resolve, reject) => {
    const thread = new Worker(THREAD, { workerData: options })
    thread.on("message", resolve)
    thread.on("error", reject)
  })
