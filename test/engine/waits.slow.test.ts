// The cost of waiting: 10,000 tasks wait for files. Prints what they cost.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { expect, onTestFinished, test } from "vitest"
import { newRunId } from "../../src/core/model/ids.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { Engine } from "../../src/engine/engine.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { systemClock as clock, systemRandom as random } from "../../src/engine/system.ts"
import { SystemConditions } from "../../src/executors/wait/conditions.ts"
import { FileObjectStore } from "../../src/objects/file/file.ts"
import { openSqlite } from "../../src/store/sqlite/sqlite.ts"

const TASKS = 10_000
const MEASURED_MS = 30_000

setFlagsFromString("--expose_gc")
const collect = runInNewContext("gc") as () => void

/** Returns the memory that is in use after a collection, in bytes. */
const memory = (): number => {
  for (let i = 0; i < 3; i++) collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

test("10,000 tasks that wait for a file use no slot, write nothing, and cost little", { timeout: 300_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-waits-"))
  const store = await openSqlite({ path: join(folder, "ork.db"), clock, random, isDead: () => false })
  await store.migrate()
  let changes = 0
  let checks = 0
  const conditions = new SystemConditions({
    allow: [],
    connections: {},
    maxOutputBytes: 1 << 20,
    secret: () => null,
    openObjects: () => Promise.reject(new Error("no bucket")),
    dataDir: join(folder, "data"),
  })
  const engine = new Engine({
    store,
    objects: new FileObjectStore(join(folder, "objects")),
    executors: new Map(),
    evaluator: inlineEvaluator,
    clock,
    random,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    holder: { kind: "run", name: "waits", process: "" },
    lanes: [],
    concurrency: 1,
    maxFanout: 100_000,
    maxOutputBytes: 1 << 20,
    graceMs: 1000,
    dataDir: join(folder, "data"),
    secret: () => null,
    observer: { turn: (batch) => void (changes += batch.changes) },
    conditions: {
      paths: (path) => {
        checks += 1
        return conditions.paths(path)
      },
      respond: (request) => conditions.respond(request),
      firstRow: (query) => conditions.firstRow(query),
      stop: () => conditions.stop(),
    },
  })
  await engine.start()
  onTestFinished(async () => {
    await engine.stop()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const task = { executor: "wait", parallel: TASKS, path: `${folder}/in-\${{ index }}.csv`, every: "10s" }
  const parsed = parseDefinition(JSON.stringify({ name: "waits", tasks: { file: task } }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const { workflowId, versionId } = await store.putWorkflow({ compiled: parsed.workflow, ...parsed, deploy: true })
  const before = memory()
  const { run } = await engine.trigger({
    id: newRunId(clock.now(), random.hex128()),
    workflowId,
    versionId,
    trigger: "manual",
    params: {},
    priority: null,
    logicalDate: null,
    idempotencyKey: null,
    workingDir: folder,
  })
  while (checks < TASKS) await pause(100)
  // The first check of each task reports what it saw.
  for (let seen = -1; seen !== changes; await pause(2000)) seen = changes
  expect((await store.getRun(run.id))!.tasks).toMatchObject({ running: TASKS, dispatched: 0 })
  const bytes = memory() - before

  changes = 0
  checks = 0
  const cpuBefore = process.cpuUsage()
  await pause(MEASURED_MS)
  const { user, system } = process.cpuUsage(cpuBefore)
  const cpu = (user + system) / 1000 / MEASURED_MS
  const figures = `${TASKS} waits: ${(cpu * 100).toFixed(1)} % of a core, ${(bytes / 2 ** 20).toFixed(1)} MiB, ${checks} checks and ${changes} changes in ${MEASURED_MS / 1000} s`
  process.stdout.write(`${figures}\n`)
  expect(changes, figures).toBe(0)
  expect(checks, figures).toBeGreaterThan((TASKS * MEASURED_MS) / 10_000 / 2)
  expect(bytes, figures).toBeLessThan(20 * 2 ** 20)
  expect(cpu, figures).toBeLessThan(0.05)
})
