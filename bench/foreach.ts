// usage: node bench/foreach.ts [items]   Runs a fan-out over 100,000 items, lists all instances and retries one of them.

import { workflow } from "../src/core/testing.ts"
import { makeEngine, openStore, print, put, request, tempFolder } from "./support.ts"

const items = Number(process.argv[2] ?? 100_000)
const folder = tempFolder()
const store = await openStore(`${folder.path}/ork.db`)
const engine = makeEngine(store, folder.path, { maxFanout: items })
await engine.start()

const list = Array.from({ length: items }, (_, i) => `file-${i}.csv`)
const flow = workflow(
  { each: { fan: { foreach: { lit: list }, reference: "list" }, concurrency: 200 }, report: { after: ["each"] } },
  { name: "foreach" },
)
const started = performance.now()
const { run } = await engine.trigger(request(await put(store, flow)))
const ended = await engine.waitForRun(run.id)
const seconds = (performance.now() - started) / 1000

let listed = 0
for (let after = 0; ;) {
  const page = await store.listTasks({ runId: run.id, name: "each", after, limit: 1000 })
  listed += page.length
  if (page.length < 1000) break
  after = page[page.length - 1]!.row
}
const path = String(items >> 1)
await engine.retry(run.id, { instance: { task: "each", path } })
const again = await engine.waitForRun(run.id)
const instance = await store.getTask({ runId: run.id, name: "each", path })

print({
  bench: "foreach",
  items,
  status: ended.status,
  seconds: Number(seconds.toFixed(1)),
  tasks_per_s: Math.round(items / seconds),
  listed,
  retried_status: again.status,
  retried_attempt: instance!.attempt,
  successes: again.tasks.success,
  peak_rss_mb: process.resourceUsage().maxRSS >> 10,
})
await engine.stop()
await store.close()
folder.remove()
process.exit(ended.status === "success" && listed === items && instance!.attempt === 2 ? 0 : 1)
