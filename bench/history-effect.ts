// usage: node bench/history-effect.ts EMPTY_URL FULL_URL FINISHED_TASKS
// Measures the cost of a task with and without a long history: layered graphs and a chain on two databases, one of them filled first. Both
// take turns in one process, since the speed of a machine varies. Prints one JSON line with the medians.

import { fillHistory } from "./history.ts"
import { chain, layered, makeEngine, openStore, print, put, request, tempFolder } from "./support.ts"

const [emptyUrl, fullUrl, history] = process.argv.slice(2)
const ROUNDS = 12
const RUNS = 100
const STEPS = 300

const make = async (url: string, tasks: number) => {
  const folder = tempFolder()
  const target = url === "sqlite" ? `${folder.path}/ork.db` : url
  const store = await openStore(target)
  if (tasks > 0) await fillHistory(store, target, tasks)
  const engine = makeEngine(store, folder.path)
  await engine.start()
  const [wide, long] = [await put(store, layered()), await put(store, chain(STEPS))]
  const end = async (version: typeof wide, runs: number): Promise<number> => {
    const started = performance.now()
    const made = await Promise.all(Array.from({ length: runs }, () => engine.trigger(request(version))))
    await Promise.all(made.map(({ run }) => engine.waitForRun(run.id)))
    return performance.now() - started
  }
  const seen: { rate: number[]; step: number[] } = { rate: [], step: [] }
  return {
    seen,
    round: async (): Promise<void> => {
      seen.rate.push((RUNS * 100 * 1000) / (await end(wide, RUNS)))
      seen.step.push((await end(long, 1)) / STEPS)
    },
    stop: async (): Promise<void> => {
      await engine.stop()
      await store.close()
      folder.remove()
    },
  }
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!

const full = await make(fullUrl!, Number(history))
const empty = await make(emptyUrl!, 0)
for (let i = 0; i < ROUNDS; i++) for (const one of i % 2 === 0 ? [empty, full] : [full, empty]) await one.round()
print({
  bench: "history effect",
  history: Number(history),
  tasks_per_s: Math.round(median(empty.seen.rate)),
  history_tasks_per_s: Math.round(median(full.seen.rate)),
  chain_ms_per_step: Number(median(empty.seen.step).toFixed(3)),
  history_chain_ms_per_step: Number(median(full.seen.step).toFixed(3)),
})
await Promise.all([full.stop(), empty.stop()])
process.exit(0)
