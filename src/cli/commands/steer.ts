// Commands that change the course of a run or of a workflow's schedule: cancel, retry, pause, resume, backfill.

import type { Context } from "../target/backends.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { InputError } from "../terminal/errors.ts"
import { findWorkflow } from "../target/find-workflow.ts"
import { wholeNumber } from "../terminal/numbers.ts"
import { print, printJson } from "../terminal/output.ts"
import { findServerRun } from "../target/server-reader.ts"
import { plural } from "../terminal/text.ts"
import { instancePathOf } from "./logs.ts"
import { parseRunId } from "../../core/model/ids.ts"
import { type Client, ClientError, type Run, type Workflow } from "../../protocol/client/client.ts"

export interface SteerOptions extends ServerFlags {
  json?: boolean
}

const tell = (context: Context, options: SteerOptions, value: unknown, line: string): number => {
  if (options.json === true) printJson(context, value)
  else print(context, line)
  return 0
}

export const cancel = async (context: Context, runText: string, options: SteerOptions): Promise<number> => {
  const client = await connect(context, options)
  const { id } = await findServerRun(client, runText)
  const run = await client.cancelRun(id)
  const how = run.status === "cancelled" ? "is cancelled" : "is being cancelled; it ends when its processes are dead"
  return tell(context, options, run, `run ${id} ${how}`)
}

// -- retry ---------------------------------------------------------------------------------------------------------------------

export interface RetryOptions extends SteerOptions {
  from?: string
  task?: string
  index?: string
  path?: string
  plan?: boolean
}

export const retry = async (context: Context, runText: string, options: RetryOptions): Promise<number> => {
  const { from, task, plan } = options
  const path = instancePathOf(options)
  if (from !== undefined && task !== undefined) {
    throw new InputError("--from takes a task with all of its instances, --task one instance; give one of them")
  }
  if (path !== undefined && task === undefined) throw new InputError("--index and --path say which instance of --task; name it")
  if (plan === true && task !== undefined) throw new InputError("--plan goes with --from, or alone; leave out --task")
  const client = await connect(context, options)
  const { id } = await findServerRun(client, runText)
  if (plan === true) {
    const planned = await client.planRetry(id, from)
    const kept = planned.kept.length === 0 ? "nothing" : planned.kept.join(", ")
    return tell(context, options, planned, `again: ${planned.again.join(", ") || "nothing"}\nkept: ${kept}`)
  }
  const run =
    task === undefined
      ? await client.retryRun(id, from)
      : await client.retryTask({ runId: id, task, ...(path !== undefined && { path }) })
  return tell(context, options, run, `run ${id} goes on; it is ${run.status}`)
}

// -- pause and resume ------------------------------------------------------------------------------------------------------------

/** A workflow's name wins over the beginning of a run's id; a whole id is always a run. */
const target = async (client: Client, text: string): Promise<{ run: Run } | { workflow: Workflow }> => {
  if (parseRunId(text) !== null || text === "latest") return { run: await findServerRun(client, text) }
  if (!/^[0-9a-f-]+$/.test(text)) return { workflow: await findWorkflow(client, text) }
  try {
    return { workflow: await client.getWorkflow(text) }
  } catch (error) {
    if (error instanceof ClientError && error.status !== null && error.status < 500)
      return { run: await findServerRun(client, text) }
    throw error
  }
}

export const setPaused = async (context: Context, text: string, paused: boolean, options: SteerOptions): Promise<number> => {
  const client = await connect(context, options)
  const found = await target(client, text)
  if ("run" in found) {
    const run = await client.pauseRun(found.run.id, paused)
    const line = paused ? `run ${run.id} is paused: nothing new of it starts` : `run ${run.id} goes on`
    return tell(context, options, run, line)
  }
  const workflow = await client.pauseWorkflow(found.workflow.name, paused)
  const none = workflow.schedules.length === 0 ? "; it has no schedule" : ""
  const line = `${workflow.name}: ${paused ? "its schedule rests" : "its schedule goes on"}${none}`
  return tell(context, options, workflow, line)
}

// -- backfill --------------------------------------------------------------------------------------------------------------------

export interface BackfillOptions extends SteerOptions {
  from: string
  to: string
  plan?: boolean
  maxActiveRuns?: string
}

export const backfill = async (context: Context, name: string, options: BackfillOptions): Promise<number> => {
  const most = wholeNumber("--max-active-runs", options.maxActiveRuns, 1, 1000)
  const client = await connect(context, options)
  await findWorkflow(client, name)
  const made = await client.backfill(name, {
    from: options.from,
    to: options.to,
    ...(options.plan === true && { plan: true }),
    ...(most !== undefined && { max_active_runs: most }),
  })
  if (options.plan === true) {
    return tell(context, options, made, [...made.ticks, plural(made.ticks.length, "tick")].join("\n"))
  }
  return tell(context, options, made, [...made.runs, `${plural(made.runs.length, "run")}, one for each tick`].join("\n"))
}
