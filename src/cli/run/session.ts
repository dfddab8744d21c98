// One private run in this process: an engine of its own, told about by a reporter, seen to its end.

import { hostname } from "node:os"
import { resolve } from "node:path"
import type { Context } from "../target/backends.ts"
import { childWorkflows } from "./child-workflows.ts"
import { type Handlers, withHandlers } from "../target/handlers.ts"
import { exitCodeOf, listenForInterrupts, makeReporter, summarize, warnTo } from "./follow.ts"
import { applyEvent, isEventOf, type RunView } from "../progress/model.ts"
import type { Reporter } from "../progress/reporter.ts"
import { storeSource } from "./run-source.ts"
import type { Config } from "../../config.ts"
import type { RunId } from "../../core/model/ids.ts"
import { Engine } from "../../engine/engine.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { runShape } from "../../protocol/api/shapes.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export interface SessionOptions {
  config: Config
  handlers: Handlers
  store: ServerStore
  objects: ObjectStore
  runId: RunId
  view: RunView
  json: boolean
}

export interface Session {
  engine: Engine
  reporter: Reporter
}

/** `begin` starts the engine and the run. Gives the exit code. */
export const runSession = async (
  context: Context,
  { config, handlers, store, objects, runId, view, json }: SessionOptions,
  begin: (session: Session) => Promise<void>,
): Promise<number> => {
  const { backends } = context
  const parts = await backends.engineParts(config, objects)
  const source = storeSource({ store, objects }, runId)
  const reporter = await makeReporter(context, source, view, { json, concurrency: config.concurrency })
  const engine = new Engine({
    ...parts,
    executors: await withHandlers(context, handlers, parts.executors),
    store,
    objects,
    clock: backends.clock,
    random: backends.random,
    log: warnTo(reporter),
    holder: { kind: "run", name: `${hostname()}:${process.pid}`, process: backends.processIdentity() },
    privateRun: runId,
    lanes: [],
    concurrency: config.concurrency,
    maxFanout: config.maxFanout,
    maxOutputBytes: config.maxOutputBytes,
    graceMs: config.graceMs,
    dataDir: resolve(context.cwd, config.dataDir),
    findWorkflow: childWorkflows(store, config.workerProfiles),
  })
  // Nobody reads any more (`ork run … | head`): the work goes on.
  context.stdout.removeAllListeners("error").on("error", () => {})
  engine.onEvent((event) => {
    if (!isEventOf(runId, event)) return
    applyEvent(view, event)
    reporter.event(event)
  })
  const interrupts = listenForInterrupts(engine, runId, reporter)
  try {
    await begin({ engine, reporter })
    interrupts.begun()
    const run = await engine.ended(runId)
    interrupts.stop()
    reporter.stop()
    await summarize(context, source, view, runShape(run), json)
    return exitCodeOf(run, interrupts.heard)
  } finally {
    interrupts.stop()
    reporter.stop()
    await engine.stop()
  }
}
