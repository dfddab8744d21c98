// Measures a store without the engine: layered graphs and a chain of no-op tasks through `advance`, 256 at a time.
// Prints JSON lines. `node bench/store.ts [SQLITE FILE or postgres:// URL] [FINISHED TASKS BEFORE]`

import { join } from "node:path"
import type { Change } from "../src/core/model/change.ts"
import { newHolderId, newRunId, type HolderId } from "../src/core/model/ids.ts"
import type { CompiledWorkflow } from "../src/core/model/workflow.ts"
import { systemClock as clock, systemRandom as random } from "../src/engine/system.ts"
import type { Claim, Store } from "../src/store/contract/store.ts"
import { chain, layered, openStore, print, put, request, tempFolder } from "./support.ts"

const SLOTS = 256
const LANES = ["q:default"]

const folder = tempFolder()
const url = process.argv[2] ?? join(folder.path, "bench.db")
const history = Number(process.argv[3] ?? 0)

const store = await openStore(url)
const holder = newHolderId(clock.now(), random.hex128())
await store.registerHolder({ id: holder, kind: "server", name: "bench", leaseMs: 600_000, process: "", runId: null })

const endOf = (claim: Claim): Change => {
  const now = clock.now()
  const result = { state: "success", startedAt: now, finishedAt: now, output: { inline: { ok: true } } } as const
  return { kind: "finish", row: claim.row, attemptId: claim.attemptId, status: "success", result }
}

const createRuns = async (target: Store, compiled: CompiledWorkflow, count: number): Promise<void> => {
  const version = await put(target, compiled)
  const run = () => ({ id: newRunId(clock.now(), random.hex128()), ...request(version), private: false })
  await target.createRuns(Array.from({ length: count }, run))
}

/** Claims and finishes all tasks. Returns the number of transactions. */
const drain = async (target: Store, taker: HolderId): Promise<number> => {
  let inbox: Change[] = []
  for (let transactions = 1; ; transactions++) {
    const gate = { lanes: ["g"], maxClaims: 0 }
    const { claims, more } = await target.advance({
      holder: taker,
      changes: inbox,
      work: { lanes: LANES, maxClaims: SLOTS },
      gate,
    })
    if (claims.length === 0 && !more) return transactions
    inbox = claims.map(endOf)
  }
}

const measure = async (name: string, compiled: CompiledWorkflow, runs: number): Promise<void> => {
  const tasks = runs * compiled.nodes.length
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await createRuns(store, compiled, runs)
  const created = performance.now()
  const transactions = 1 + (await drain(store, holder))
  const ended = performance.now()
  const { user, system } = process.cpuUsage(cpu)
  print({
    bench: name,
    store: store.kind,
    history,
    tasks,
    cpuMs: Math.round((user + system) / 1000),
    createMs: Math.round(created - startedAt),
    tasksPerSecond: Math.round((tasks / (ended - startedAt)) * 1000),
    drainPerSecond: Math.round((tasks / (ended - created)) * 1000),
    transactionsPerTask: Number((transactions / tasks).toFixed(4)),
    msPerStep: Number(((ended - created) / transactions).toFixed(3)),
  })
}

// Warms up, as a server is.
for (let rounds = 0; rounds < 3; rounds++) {
  await createRuns(store, layered(), 100)
  await drain(store, holder)
}
for (let left = history; left > 0; left -= 10_000) {
  await createRuns(store, layered(), 100)
  await drain(store, holder)
}
await measure("layered", layered(), 100)
await measure("chain", chain(1000), 1)
await store.close()
folder.remove()
