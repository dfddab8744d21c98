// usage: node bench/functions.ts node|python [tasks]
// Runs no-op functions on warm workers through the whole engine on SQLite: a fan-out for the rate, then a chain for the time from dispatch
// to start. Prints one JSON line.

import { writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { chain, counted, makeEngine, openStore, print, put, request, tempFolder } from "./support.ts"
import { workflow } from "../src/core/testing.ts"
import type { CompiledWorkflow } from "../src/core/model/workflow.ts"
import { systemClock } from "../src/engine/system.ts"
import type { Assignment, Executor, LaunchContext } from "../src/executors/executor.ts"
import { nodeRuntime } from "../src/executors/node/runtime.ts"
import { PoolExecutor } from "../src/executors/pool/pool-executor.ts"
import { pythonRuntime } from "../src/executors/python/runtime.ts"
import { FileObjectStore } from "../src/objects/file/file.ts"

const [language, count = "10000"] = process.argv.slice(2)
const [runtime, file, code] =
  language === "python"
    ? ([pythonRuntime, "noop.py", "def main(input, ctx): return None\n"] as const)
    : ([nodeRuntime, "noop.ts", "export default () => null\n"] as const)

const folder = tempFolder()
writeFileSync(join(folder.path, file), code)
const functions = new PoolExecutor({
  runtime,
  objects: new FileObjectStore(join(folder.path, "objects")),
  clock: systemClock,
  helper: "auto",
  maxWorkers: 64,
  eagerWorkers: 4 * availableParallelism(),
  maxTasks: 10_000,
  idleMs: 60_000,
})

/** Milliseconds from the launch, which directly follows the dispatch, to the start. */
const waits: number[] = []
const timed: Executor = {
  name: functions.name,
  start: () => functions.start(),
  stop: () => functions.stop(),
  launch(assignment: Assignment, context: LaunchContext) {
    const launched = performance.now()
    const started: LaunchContext["started"] = (info) => {
      waits.push(performance.now() - launched)
      context.started(info)
    }
    return functions.launch(assignment, {
      started,
      progress: context.progress,
      get signal() {
        return context.signal
      },
    })
  },
}

const withFunctions = (compiled: CompiledWorkflow): CompiledWorkflow => ({
  ...compiled,
  nodes: compiled.nodes.map((node) => ({ ...node, executor: runtime.name, file })),
})

const store = await openStore(`${folder.path}/ork.db`)
const transactions = counted(store)
const engine = makeEngine(store, folder.path, { executors: new Map([[timed.name, timed]]), concurrency: 64 })
await engine.start()

const TASKS = Number(count)
const RUNS = 100
const names = Array.from({ length: TASKS / RUNS }, (_, i) => [`t${i}`, {}] as const)
const wide = await put(store, withFunctions(workflow(Object.fromEntries(names), { name: "wide" })))
const all = async (): Promise<number> => {
  const startedAt = performance.now()
  const runs = await Promise.all(
    Array.from({ length: RUNS }, () => engine.trigger({ ...request(wide), workingDir: folder.path })),
  )
  await Promise.all(runs.map(({ run }) => engine.waitForRun(run.id)))
  return (performance.now() - startedAt) / 1000
}
await all()
transactions.transactions = 0
const before = process.cpuUsage()
const seconds = await all()
const perTask = transactions.transactions / TASKS
const { user, system } = process.cpuUsage(before)

waits.length = 0
const STEPS = 300
const long = await put(store, withFunctions(chain(STEPS)))
const startedAt = performance.now()
await engine.waitForRun((await engine.trigger({ ...request(long), workingDir: folder.path })).run.id)
const step = (performance.now() - startedAt) / STEPS
const sorted = waits.toSorted((a, b) => a - b)

print({
  bench: "functions",
  language: runtime.name,
  tasks_per_s: Math.round(TASKS / seconds),
  /** CPU time of this process (the engine and its end of the pipes), which is more reliable than the rate on a shared machine. */
  cpu_us_per_task: Math.round((user + system) / TASKS),
  transactions_per_task: Number(perTask.toFixed(3)),
  start_p50_ms: Number(sorted[sorted.length >> 1]!.toFixed(3)),
  start_p99_ms: Number(sorted[Math.floor(sorted.length * 0.99)]!.toFixed(3)),
  chain_ms_per_step: Number(step.toFixed(3)),
  rss_mb: process.memoryUsage().rss >> 20,
})
await engine.stop()
await store.close()
folder.remove()
process.exit(0)
