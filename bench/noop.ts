// usage: node bench/noop.ts URL
// Runs 100 graphs of 100 no-op tasks, then a chain of 1,000, through the whole engine. Prints one JSON line.

import { chain, counted, layered, makeEngine, openStore, print, put, request, tempFolder } from "./support.ts"

const [url] = process.argv.slice(2)
const folder = tempFolder()
const target = url === "sqlite" ? `${folder.path}/ork.db` : url!
const store = await openStore(target)
const count = counted(store)
const engine = makeEngine(store, folder.path)
await engine.start()

const wide = await put(store, layered())
const RUNS = 100

/** Runs all graphs once; returns the seconds that this takes. */
const layers = async (): Promise<number> => {
  const started = performance.now()
  const runs = await Promise.all(Array.from({ length: RUNS }, () => engine.trigger(request(wide))))
  await Promise.all(runs.map(({ run }) => engine.waitForRun(run.id)))
  return (performance.now() - started) / 1000
}

// The first pass includes the compilation of the code, as in the measurement of the floor; a server has that cost only once.
const cold = await layers()
count.transactions = 0
const warm = await layers()
const tasks = RUNS * 100
const perTask = count.transactions / tasks

const STEPS = 1000
const long = await put(store, chain(STEPS))
const startedAt = performance.now()
await engine.waitForRun((await engine.trigger(request(long))).run.id)
const step = (performance.now() - startedAt) / STEPS

print({
  bench: "noop",
  store: store.kind,
  tasks_per_s: Math.round(tasks / warm),
  cold_tasks_per_s: Math.round(tasks / cold),
  transactions_per_task: perTask,
  chain_ms_per_step: Number(step.toFixed(3)),
  rss_mb: process.memoryUsage().rss >> 20,
})
await engine.stop()
await store.close()
folder.remove()
process.exit(0)
