// usage: node bench/groups.ts [outer] [inner] [URL]   Runs a group over 300 items with a fan-out of 300 in each, and retries one instance.
// The live heap must not grow with the number of items (the process itself grows by SQLite's page cache of 64 MB).

import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { group, workflow } from "../src/core/testing.ts"
import { makeEngine, openStore, print, put, request, tempFolder } from "./support.ts"

const [outer, inner] = [Number(process.argv[2] ?? 300), Number(process.argv[3] ?? 300)]
const folder = tempFolder()
const store = await openStore(process.argv[4] ?? `${folder.path}/ork.db`)
const engine = makeEngine(store, folder.path)
await engine.start()

const list = (length: number, name: string): string[] => Array.from({ length }, (_, i) => `${name}-${i}`)
const fan = (items: string[]) => ({ foreach: { lit: items }, reference: "list" })
const flow = workflow(
  {
    region: { ...group, fan: fan(list(outer, "region")) },
    report: { after: ["region"] },
    "region.shop": { fan: fan(list(inner, "shop")) },
    "region.total": { after: ["region.shop"] },
  },
  { name: `groups-${outer}-${inner}` },
)
setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void
let live = 0
const watch = setInterval(() => {
  collect()
  live = Math.max(live, process.memoryUsage().heapUsed)
}, 100)
const started = performance.now()
const { run } = await engine.trigger(request(await put(store, flow)))
const ended = await engine.waitForRun(run.id)
const seconds = (performance.now() - started) / 1000
clearInterval(watch)
const peak = process.resourceUsage().maxRSS >> 10

const path = `${outer >> 1}.${inner >> 1}`
await engine.retry(run.id, { instance: { task: "region.shop", path } })
const again = await engine.waitForRun(run.id)
const instance = await store.getTask({ runId: run.id, name: "region.shop", path })

print({
  bench: "groups",
  store: store.kind,
  items: outer * inner,
  status: ended.status,
  seconds: Number(seconds.toFixed(1)),
  tasks_per_s: Math.round((outer * (inner + 1)) / seconds),
  retried_status: again.status,
  retried_attempt: instance!.attempt,
  successes: again.tasks.success,
  live_heap_mb: Number((live / 2 ** 20).toFixed(1)),
  peak_rss_mb: peak,
})
await engine.stop()
await store.close()
folder.remove()
const whole = outer * (inner + 1) + 1
process.exit(ended.status === "success" && again.tasks.success === whole && instance!.attempt === 2 ? 0 : 1)
