// `ork delete TARGET`: deletes a workflow, whose runs are kept, or a closed run.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { findTarget } from "../../target/find-target.ts"
import { printResult } from "../../terminal/output.ts"

export const deleteTarget = async (context: Context, text: string, options: ServerFlags): Promise<number> => {
  const client = await connect(context, options)
  const target = await findTarget(client, text)
  if ("run" in target) {
    const { id } = target.run
    await client.deleteRun(id)
    return printResult(context, options, { deleted: id }, `run ${id} is deleted`)
  }
  const { name } = target.workflow
  await client.deleteWorkflow(name)
  return printResult(context, options, { deleted: name }, `workflow ${name} is deleted; its runs are kept`)
}
