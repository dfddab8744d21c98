// Shared by the benchmarks: an engine on a store with a no-op executor, graphs, JSON lines.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { workflow } from "../src/core/testing.ts"
import type { CompiledWorkflow } from "../src/core/model/workflow.ts"
import { Engine } from "../src/engine/engine.ts"
import { inlineEvaluator } from "../src/engine/gate/evaluator.ts"
import type { EngineOptions } from "../src/engine/ports.ts"
import { systemClock, systemRandom } from "../src/engine/system.ts"
import type { Executor } from "../src/executors/executor.ts"
import { FileObjectStore } from "../src/objects/file/file.ts"
import { openSqlite } from "../src/store/sqlite/sqlite.ts"
import type { ServerStore } from "../src/store/contract/server-store.ts"
import type { AdvanceResult, Batch, Store } from "../src/store/contract/store.ts"

export const noop: Executor = {
  name: "process",
  launch: async (_assignment, { started }) => {
    const now = Date.now()
    started({ at: now })
    return { state: "success", startedAt: now, finishedAt: now, output: { inline: { ok: true } } }
  },
}

export const tempFolder = (): { path: string; remove: () => void } => {
  const path = mkdtempSync(join(tmpdir(), "ork-bench-"))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export const openStore = async (url: string): Promise<ServerStore> => {
  const store = url.startsWith("postgres")
    ? await (await import("../src/store/postgres/postgres.ts")).openPostgres({ url, random: systemRandom })
    : await openSqlite({ path: url, clock: systemClock, random: systemRandom })
  await store.migrate()
  return store
}

/** Counts the calls of `advance`, which are one transaction each. */
export const counted = (store: Store): { transactions: number } => {
  const count = { transactions: 0 }
  const advance = store.advance.bind(store)
  store.advance = (batch: Batch): Promise<AdvanceResult> => {
    count.transactions += 1
    return advance(batch)
  }
  return count
}

export const makeEngine = (store: ServerStore, folder: string, rest: Partial<EngineOptions> = {}): Engine =>
  new Engine({
    store,
    objects: new FileObjectStore(join(folder, "objects")),
    executors: new Map([[noop.name, noop]]),
    evaluator: inlineEvaluator,
    clock: systemClock,
    random: systemRandom,
    log: { info: () => {}, warn: console.error, error: console.error },
    holder: { kind: "server", name: "bench", process: "" },
    lanes: ["q:default"],
    concurrency: 256,
    maxFanout: 100_000,
    maxOutputBytes: 64 << 20,
    graceMs: 1000,
    dataDir: folder,
    secret: () => null,
    ...rest,
  })

/** 10 layers of 10 tasks with three upstream tasks each: the same shape as the floor's graphs. */
export const layered = (): CompiledWorkflow => {
  const tasks: { [name: string]: { after: string[] } } = {}
  for (let layer = 0; layer < 10; layer++) {
    for (let k = 0; k < 10; k++) {
      const after = layer === 0 ? [] : [0, 1, 2].map((d) => `t${layer - 1}_${(k - d + 10) % 10}`)
      tasks[`t${layer}_${k}`] = { after }
    }
  }
  return workflow(tasks, { name: "layered" })
}

export const chain = (length: number): CompiledWorkflow =>
  workflow(Object.fromEntries(Array.from({ length }, (_, i) => [`t${i}`, { after: i === 0 ? [] : [`t${i - 1}`] }])), {
    name: `chain${length}`,
  })

export const put = async (store: Store, compiled: CompiledWorkflow): Promise<{ workflowId: number; versionId: number }> =>
  await store.putWorkflow({ compiled, hash: `${compiled.name}-${compiled.nodes.length}`, source: "", deploy: false })

export const request = (version: { workflowId: number; versionId: number }) => ({
  workflowId: version.workflowId,
  versionId: version.versionId,
  trigger: "manual" as const,
  params: {},
  priority: null,
  logicalDate: null,
  idempotencyKey: null,
  workingDir: process.cwd(),
})

export const print = (line: object): void => console.log(JSON.stringify(line))
