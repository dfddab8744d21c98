// `ork trigger NAME`: starts a run of a deployed workflow; with --wait it follows the run as `ork run` does.

import { randomUUID } from "node:crypto"
import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { InputError } from "../../terminal/errors.ts"
import { findWorkflow } from "../../target/find-workflow.ts"
import { parseWholeNumber } from "../../terminal/option-values.ts"
import { printResult } from "../../terminal/output.ts"
import { readGivenParams } from "../../target/params.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"

export interface TriggerOptions extends ServerFlags {
  param?: string[]
  paramsFile?: string
  priority?: string
  idempotencyKey?: string
  logicalDate?: string
  wait?: boolean
  cancelOnInterrupt?: boolean
}

export const trigger = async (context: Context, name: string, options: TriggerOptions): Promise<number> => {
  const { param = [], paramsFile, logicalDate, json = false, wait = false, cancelOnInterrupt = false } = options
  if (cancelOnInterrupt && !wait) throw new InputError("--cancel-on-interrupt needs --wait")
  const priority = parseWholeNumber("--priority", options.priority, 1, 10)
  const client = await connect(context, options)
  const workflow = await findWorkflow(client, name)
  const params = await readGivenParams(workflow.params, { cwd: context.cwd, param, paramsFile })
  const position = wait ? await client.position() : null
  // A random key lets the client repeat the request if the response is lost.
  const idempotencyKey = options.idempotencyKey ?? randomUUID()
  const body = omitUndefined({ params, idempotency_key: idempotencyKey, priority, logical_date: logicalDate })
  const { run, created } = await client.trigger(name, body)
  if (position !== null) {
    const { followRun } = await import("../../run/follow-run.ts")
    return followRun(context, { client, run, workflow, position, created, json, cancelOnInterrupt })
  }
  const text = created ? run.id : `${run.id} (created before with this idempotency key; it is ${run.status})`
  return printResult(context, options, run, text)
}
