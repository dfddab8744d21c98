// `ork run FILE`: runs a workflow in this process with live progress, without deploying it. Bad input is rejected before anything
// is stored.

import { dirname, resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { type Definition, loadDefinition } from "../../target/definition.ts"
import { InputError } from "../../terminal/errors.ts"
import { readHandlers, rejectUnregistered } from "../../target/handlers.ts"
import { openWritableObjects } from "../../target/stores.ts"
import { printError } from "../../terminal/output.ts"
import { readParams } from "../../target/params.ts"
import { newTerminalRun } from "../../progress/terminal-state.ts"
import { resumeRun } from "../../run/resume.ts"
import { openLocalRun } from "../../run/local-run.ts"
import { joinRepeated, loadConfig, type StoreFlags } from "../../target/load-config.ts"
import { type Config, unknownVariables } from "../../../config.ts"
import { newRunId } from "../../../core/model/ids.ts"
import type { JsonObject } from "../../../core/values/json.ts"

export interface RunOptions extends StoreFlags {
  param?: string[]
  paramsFile?: string
  concurrency?: string
  resume?: string
  handlers: string[]
}

export const run = async (context: Context, file: string | undefined, options: RunOptions): Promise<number> => {
  const { databaseUrl, objectStore, concurrency, param = [], paramsFile, json = false } = options
  const config = await loadConfig(context, { databaseUrl, objectStore, concurrency, handlers: joinRepeated(options.handlers) })
  for (const warning of unknownVariables(context.env)) printError(context, `ork: ${warning}`)
  if (options.resume !== undefined) {
    if (param.length > 0 || paramsFile !== undefined) {
      throw new InputError(
        "--resume continues with the params that the run was started with; leave out --param and --params-file",
      )
    }
    if (file !== undefined) printError(context, `ork: --resume continues with the stored definition; ${file} is not read`)
    return resumeRun(context, config, options.resume, json)
  }
  if (file === undefined) throw new InputError("name the workflow to run: ork run FILE")
  const definition = await loadDefinition(context.cwd, file, config.workerProfiles)
  const params = await readParams(definition.workflow, { cwd: context.cwd, param, paramsFile })
  const workingDir = dirname(resolve(context.cwd, file))
  return runDefinition(context, config, definition, { params, workingDir, json })
}

const runDefinition = async (
  context: Context,
  config: Config,
  { workflow, hash, source }: Definition,
  { params, workingDir, json }: { params: JsonObject; workingDir: string; json: boolean },
): Promise<number> => {
  const handlers = await readHandlers(context, config.handlers)
  rejectUnregistered(workflow, handlers)
  const { clock, random, openStore } = context.backends
  const objects = await openWritableObjects(context, config)
  const store = (await openStore(config, { create: true }))!
  const runId = newRunId(clock.now(), random.hex128())
  const view = newTerminalRun(runId, workflow)
  try {
    const run = await openLocalRun(context, { config, handlers, store, objects, runId, view, json })
    try {
      // Awaits both: an engine that is still starting could not be stopped and would keep this process alive.
      const [stored, started] = await Promise.allSettled([
        store.putWorkflow({ compiled: workflow, hash, source, deploy: false }),
        run.engine.start(),
      ])
      if (started.status === "rejected") throw started.reason
      if (stored.status === "rejected") throw stored.reason
      const { workflowId, versionId } = stored.value
      run.reporter.start()
      await run.engine.trigger({
        id: runId,
        workflowId,
        versionId,
        trigger: "manual",
        params,
        priority: null,
        logicalDate: null,
        idempotencyKey: null,
        workingDir,
      })
      return await run.finish()
    } finally {
      await run.close()
    }
  } finally {
    await store.close()
  }
}
