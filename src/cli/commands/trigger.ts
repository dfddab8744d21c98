// `ork trigger NAME`: starts a run of a deployed workflow; with --wait it is watched to its end as `ork run` does.

import { randomUUID } from "node:crypto"
import type { Context } from "../target/backends.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { InputError } from "../terminal/errors.ts"
import { findWorkflow } from "../target/find-workflow.ts"
import { wholeNumber } from "../terminal/numbers.ts"
import { print, printJson } from "../terminal/output.ts"
import { readGivenParams } from "../target/params.ts"

export interface TriggerOptions extends ServerFlags {
  param?: string[]
  paramsFile?: string
  priority?: string
  idempotencyKey?: string
  logicalDate?: string
  wait?: boolean
  cancelOnInterrupt?: boolean
  json?: boolean
}

export const trigger = async (context: Context, name: string, options: TriggerOptions): Promise<number> => {
  const { param = [], paramsFile, logicalDate, json = false, wait = false, cancelOnInterrupt = false } = options
  if (cancelOnInterrupt && !wait) throw new InputError("--cancel-on-interrupt goes with --wait")
  const priority = wholeNumber("--priority", options.priority, 1, 10)
  const client = await connect(context, options)
  const workflow = await findWorkflow(client, name)
  const params = await readGivenParams(workflow.params, { cwd: context.cwd, param, paramsFile })
  const position = wait ? await client.position() : null
  const { run, created } = await client.trigger(name, {
    params,
    // A key of its own lets the client ask again when the answer was lost on its way.
    idempotency_key: options.idempotencyKey ?? randomUUID(),
    ...(priority !== undefined && { priority }),
    ...(logicalDate !== undefined && { logical_date: logicalDate }),
  })
  if (position !== null) {
    const { watchRun } = await import("../run/watch-run.ts")
    return watchRun(context, { client, run, workflow, position, fresh: created, json, cancelOnInterrupt })
  }
  if (json) printJson(context, run)
  else print(context, created ? run.id : `${run.id} (the run that this key had made before; it is ${run.status})`)
  return 0
}
