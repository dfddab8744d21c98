// `ork pause TARGET` and `ork resume TARGET`: pauses or resumes a run, or the schedule of a workflow.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { findTarget } from "../../target/find-target.ts"
import { printResult } from "../../terminal/output.ts"

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
