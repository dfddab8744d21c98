// `ork cancel RUN`: cancels a run of a server.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { findServerRun } from "../../target/find-run.ts"
import { printResult } from "../../terminal/output.ts"

export const cancel = async (context: Context, runText: string, options: ServerFlags): Promise<number> => {
  const client = await connect(context, options)
  const { id } = await findServerRun(client, runText)
  const run = await client.cancelRun(id)
  const state = run.status === "cancelled" ? "is cancelled" : "is being cancelled; it ends when its processes have exited"
  return printResult(context, options, run, `run ${id} ${state}`)
}
