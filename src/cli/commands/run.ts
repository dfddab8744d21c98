// `ork run FILE`: compiles, runs it here and now with live progress, deploys nothing. Bad input is refused before anything is
// stored.

import { dirname, resolve } from "node:path"
import type { Context } from "../target/backends.ts"
import { loadDefinition } from "../target/definition.ts"
import { InputError } from "../terminal/errors.ts"
import { readHandlers, refuseUnknown } from "../target/handlers.ts"
import { openWritableObjects } from "../target/open.ts"
import { printError } from "../terminal/output.ts"
import { readParams } from "../target/params.ts"
import { newView } from "../progress/model.ts"
import { resumeRun } from "../run/resume.ts"
import { runSession } from "../run/session.ts"
import { listed, loadConfig, type StoreFlags } from "../target/settings.ts"
import { newRunId } from "../../core/model/ids.ts"

export interface RunOptions extends StoreFlags {
  param?: string[]
  paramsFile?: string
  json?: boolean
  concurrency?: string
  resume?: string
  handlers: string[]
}

export const run = async (context: Context, file: string | undefined, options: RunOptions): Promise<number> => {
  const { databaseUrl, objectStore, concurrency, param = [], paramsFile, json = false } = options
  const config = await loadConfig(context, { databaseUrl, objectStore, concurrency, handlers: listed(options.handlers) })
  if (options.resume !== undefined) {
    if (param.length > 0 || paramsFile !== undefined) {
      throw new InputError(
        "--resume goes on with the params that the run was started with; leave out --param and --params-file",
      )
    }
    if (file !== undefined) printError(context, `ork: --resume goes on with the stored definition; ${file} is not read`)
    return resumeRun(context, config, options.resume, json)
  }
  if (file === undefined) throw new InputError("name the workflow to run: ork run FILE")

  const { workflow, hash, source } = await loadDefinition(context.cwd, file, config.workerProfiles)
  const params = await readParams(workflow, { cwd: context.cwd, param, paramsFile })
  const handlers = await readHandlers(context, config.handlers)
  refuseUnknown(workflow, handlers)
  const { clock, random, openStore } = context.backends
  const objects = await openWritableObjects(context, config)
  const store = (await openStore(config, { create: true }))!
  const runId = newRunId(clock.now(), random.hex128())
  try {
    return await runSession(
      context,
      { config, handlers, store, objects, runId, view: newView(runId, workflow), json },
      async ({ engine, reporter }) => {
        // Both to their end: an engine that is only starting could not be stopped, and would keep this process alive.
        const [stored, started] = await Promise.allSettled([
          store.putWorkflow({ compiled: workflow, hash, source, deploy: false }),
          engine.start(),
        ])
        if (started.status === "rejected") throw started.reason
        if (stored.status === "rejected") throw stored.reason
        const version = stored.value
        reporter.start()
        await engine.trigger({
          id: runId,
          workflowId: version.workflowId,
          versionId: version.versionId,
          trigger: "manual",
          params,
          priority: null,
          logicalDate: null,
          idempotencyKey: null,
          workingDir: dirname(resolve(context.cwd, file)),
        })
      },
    )
  } finally {
    await store.close()
  }
}
