// `ork explain RUN [TASK]`: in one sentence each, why every task is where it is.

import type { Context } from "../backends.ts"
import { connect, type ServerFlags } from "../connect.ts"
import { print, printJson, printSpans } from "../output.ts"
import { iconOf } from "../progress/rows.ts"
import { findServerRun } from "../server-reader.ts"
import type { Span } from "../style.ts"
import { printable } from "../text.ts"
import { TASK_STATUSES } from "../../core/status.ts"

export interface ExplainOptions extends ServerFlags {
  json?: boolean
}

export const explain = async (
  context: Context,
  runText: string,
  task: string | undefined,
  options: ExplainOptions,
): Promise<number> => {
  const client = await connect(context, options)
  const { id, status } = await findServerRun(client, runText)
  const items = await client.explain(id, task)
  if (options.json === true) printJson(context, items)
  else if (items.length === 0) print(context, `run ${id} is ${status}: there is nothing to explain`)
  else {
    printSpans(
      context,
      items.map((item): Span[] => {
        const known = TASK_STATUSES.find((each) => each === item.status) ?? "pending"
        return [iconOf(known), " ", printable(item.sentence)]
      }),
    )
  }
  return 0
}
