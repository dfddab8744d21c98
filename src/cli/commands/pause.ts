// `ork pause TARGET` and `ork resume TARGET`: pauses or resumes a run, or the schedule of a workflow.

import type { Context } from "../target/context.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { findServerRun } from "../target/find-run.ts"
import { findWorkflow } from "../target/find-workflow.ts"
import { printResult } from "../terminal/output.ts"
import { parseRunId } from "../../core/model/ids.ts"
import { type Client, ClientError, type Run, type Workflow } from "../../protocol/client/client.ts"

export const pause = (context: Context, target: string, options: ServerFlags): Promise<number> =>
  setPaused(context, target, true, options)

export const resume = (context: Context, target: string, options: ServerFlags): Promise<number> =>
  setPaused(context, target, false, options)

const setPaused = async (context: Context, text: string, paused: boolean, options: ServerFlags): Promise<number> => {
  const client = await connect(context, options)
  const target = await findTarget(client, text)
  if ("run" in target) {
    const run = await client.pauseRun(target.run.id, paused)
    const line = paused ? `run ${run.id} is paused: it starts no new tasks` : `run ${run.id} is resumed`
    return printResult(context, options, run, line)
  }
  const workflow = await client.pauseWorkflow(target.workflow.name, paused)
  const none = workflow.schedules.length === 0 ? "; it has no schedule" : ""
  const line = `${workflow.name}: its schedule is ${paused ? "paused" : "resumed"}${none}`
  return printResult(context, options, workflow, line)
}

/** Finds a run or a workflow. A workflow's name takes precedence over the beginning of a run's id, a full id over a name. */
const findTarget = async (client: Client, text: string): Promise<{ run: Run } | { workflow: Workflow }> => {
  if (parseRunId(text) !== null || text === "latest") return { run: await findServerRun(client, text) }
  if (!/^[0-9a-f-]+$/.test(text)) return { workflow: await findWorkflow(client, text) }
  try {
    return { workflow: await client.getWorkflow(text) }
  } catch (error) {
    if (error instanceof ClientError && error.status !== null && error.status < 500) {
      return { run: await findServerRun(client, text) }
    }
    throw error
  }
}
