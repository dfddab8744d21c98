// `ork retry RUN`: runs the unsuccessful tasks of a run again, or one task with everything downstream of it.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { findServerRun } from "../../target/find-run.ts"
import { InputError } from "../../terminal/errors.ts"
import { parseInstancePath, parseTask } from "../../terminal/option-values.ts"
import { printResult } from "../../terminal/output.ts"

export interface RetryOptions extends ServerFlags {
  from?: string
  task?: string
  index?: string
  path?: string
  step?: string
  occurrence?: string
  plan?: boolean
}

export const retry = async (context: Context, runText: string, options: RetryOptions): Promise<number> => {
  const { from, plan } = options
  const step = stepOf(options)
  const path = parseInstancePath(options)
  const reference = options.task === undefined ? undefined : parseTask(options.task, options)
  if (from !== undefined && reference !== undefined) {
    throw new InputError("--from selects all instances of a task, --task one instance; give one of them")
  }
  if (path !== undefined && reference === undefined)
    throw new InputError("--index and --path select an instance of --task; name it")
  if (step !== undefined && (from !== undefined || reference !== undefined))
    throw new InputError("--step selects a step of a durable function, --from and --task a task; give one of them")
  const start = { ...(from !== undefined && { from }), ...(step !== undefined && { step }) }
  const client = await connect(context, options)
  const { id } = await findServerRun(client, runText)
  if (plan === true) {
    const planned = await (reference === undefined
      ? client.planRetry(id, start)
      : client.planTaskRetry({ runId: id, ...reference }))
    const list = (names: readonly string[]): string => names.join(", ") || "nothing"
    return printResult(context, options, planned, `again: ${list(planned.again)}\nkept: ${list(planned.kept)}`)
  }
  const run = reference === undefined ? await client.retryRun(id, start) : await client.retryTask({ runId: id, ...reference })
  return printResult(context, options, run, `run ${id} is retried; it is ${run.status}`)
}

const stepOf = ({ step, occurrence }: RetryOptions): { name: string; occurrence: number } | undefined => {
  if (step === undefined && occurrence !== undefined) throw new InputError("--occurrence belongs to --step; name the step")
  if (occurrence !== undefined && !/^\d{1,9}$/.test(occurrence))
    throw new InputError(`--occurrence: ${occurrence} is not a number from 0`)
  return step === undefined ? undefined : { name: step, occurrence: Number(occurrence ?? 0) }
}
