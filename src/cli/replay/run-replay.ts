// Runs a replay: a private engine on stores in a temporary folder.

import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import type { ExportedRun, ExportedTask } from "./recorded-run.ts"
import { replayExecutors } from "./replay-executors.ts"
import { EXIT_INTERRUPTED } from "../run/outcome.ts"
import { privateEngine } from "../run/private-engine.ts"
import { onTerminationSignal } from "../run/signals.ts"
import type { Context } from "../target/context.ts"
import { addHandlerExecutors, readHandlers } from "../target/handlers.ts"
import type { OpenStores } from "../target/stores.ts"
import { EscapeFilter } from "../terminal/escape-filter.ts"
import type { Config } from "../../config.ts"
import { contentHash } from "../../core/compile/hash.ts"
import { newRunId, type RunId } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Engine } from "../../engine/engine.ts"
import { storeBundle } from "../../objects/bundles/bundles.ts"
import type { TaskRow } from "../../store/contract/store.ts"

export interface Replay {
  config: Config
  /** For the database, the objects and the folders of the replay. */
  folder: string
  exported: ExportedRun
  workflow: CompiledWorkflow
  task: ExportedTask
  /** Tells the user how the replay differs from the exported run. */
  note(text: string): void
}

const CONCURRENCY = 8

/** Returns the row of the replayed task after its end. */
export const runReplay = async (context: Context, replay: Replay): Promise<TaskRow> => {
  const { exported, task } = replay
  const { clock, random } = context.backends
  const stores = await openStores(context, replay)
  try {
    if (exported.bundle !== null) {
      await storeBundle(stores.objects, { hash: exported.bundle.hash, bytes: Buffer.from(exported.bundle.tar, "base64") })
    }
    const runId = newRunId(clock.now(), random.hex128())
    const engine = await createEngine(context, replay, stores, runId)
    const stopListening = onTerminationSignal(
      () => void engine.cancel(runId).catch(() => undefined),
      () => process.exit(EXIT_INTERRUPTED),
    )
    try {
      await engine.start()
      await trigger(context, replay, { engine, runId, store: stores.store })
      await engine.waitForRun(runId)
    } finally {
      stopListening()
      await engine.stop()
    }
    return (await stores.store.getTask({ runId, name: task.name, path: task.path }))!
  } finally {
    await stores.store.close()
  }
}

const openStores = async ({ backends }: Context, { config, folder }: Replay): Promise<OpenStores> => {
  const own: Config = {
    ...config,
    dataDir: folder,
    databaseUrl: `sqlite:${join(folder, "ork.db")}`,
    objectStore: `file:${join(folder, "objects")}`,
  }
  const objects = await backends.openObjects(own)
  return { config: own, objects, store: (await backends.openStore(own, { create: true }))! }
}

const createEngine = async (
  context: Context,
  { config, exported, workflow, task, note }: Replay,
  stores: OpenStores,
  runId: RunId,
): Promise<Engine> => {
  const handlers = await readHandlers(context, config.handlers)
  const { executor } = workflow.nodes.find((node) => node.name === task.name)!
  const filters = { stdout: new EscapeFilter(), stderr: new EscapeFilter() }
  const options = {
    run: exported,
    task,
    objects: stores.objects,
    clock: context.backends.clock,
    print: (stream: "stdout" | "stderr", line: string): void =>
      void context[stream].write(filters[stream].add(Buffer.from(`${line}\n`))),
    onInput: (input: Json): void => {
      if (!isDeepStrictEqual(input, task.input))
        note("the input differs from that of the exported run, or is too large to compare")
    },
  }
  return privateEngine(context, stores, {
    name: `replay:${process.pid}`,
    privateRun: runId,
    concurrency: CONCURRENCY,
    executors: async (own) => replayExecutors(await addHandlerExecutors(context, handlers, own), executor, options),
    log: { info: () => {}, warn: (_fields, message) => note(message), error: (_fields, message) => note(message) },
    findWorkflow: async () => null,
  })
}

const trigger = async (
  { cwd }: Context,
  { exported: { run, bundle }, workflow }: Replay,
  { engine, runId, store }: { engine: Engine; runId: RunId; store: OpenStores["store"] },
): Promise<void> => {
  const compiled = { compiled: workflow, hash: contentHash(workflow), source: "" }
  const { workflowId, versionId } = await store.putWorkflow({ ...compiled, deploy: false })
  await engine.trigger({
    id: runId,
    workflowId,
    versionId,
    trigger: "manual",
    params: run.params as JsonObject,
    priority: null,
    logicalDate: run.logical_date ?? run.created_at,
    idempotencyKey: null,
    // A run without a folder of its own gets one with the files of the version.
    workingDir: bundle === null ? cwd : null,
  })
}
