// usage: node bench/start.ts   Measures the time from a trigger to the start of its no-op task, one run at a time on an idle engine, on
// SQLite.

import { workflow } from "../src/core/testing.ts"
import { makeEngine, noop, openStore, print, put, request, tempFolder } from "./support.ts"

const ROUNDS = 500
const folder = tempFolder()
const store = await openStore(`${folder.path}/ork.db`)
let startedAt = 0
const executors = new Map([
  [
    "process",
    {
      name: "process",
      launch: (...args: Parameters<typeof noop.launch>) => {
        startedAt = performance.now()
        return noop.launch(...args)
      },
    },
  ],
])
const engine = makeEngine(store, folder.path, { executors })
await engine.start()
const version = await put(store, workflow({ only: {} }, { name: "one" }))
const times: number[] = []
for (let i = 0; i < ROUNDS + 50; i++) {
  const requestedAt = performance.now()
  const { run } = await engine.trigger(request(version))
  await engine.waitForRun(run.id)
  if (i >= 50) times.push(startedAt - requestedAt)
}
times.sort((a, b) => a - b)
const at = (share: number): number => Number(times[Math.floor(times.length * share)]!.toFixed(2))
print({ bench: "trigger to no-op task started", p50_ms: at(0.5), p99_ms: at(0.99) })
await engine.stop()
await store.close()
folder.remove()
process.exit(0)
