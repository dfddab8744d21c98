// `ork explain RUN [TASK]`: prints one sentence per task that explains its status.

import type { Context } from "../../target/context.ts"
import { print, printJson, printSpans } from "../../terminal/output.ts"
import { iconOf } from "../../progress/icons.ts"
import { type ReaderFlags, withReader } from "../../target/reader.ts"
import type { Span } from "../../terminal/style.ts"
import { printable } from "../../terminal/text.ts"
import { TASK_STATUSES } from "../../../core/model/status.ts"
import type { Explanation } from "../../../protocol/client/client.ts"

export const explain = (context: Context, runText: string, task: string | undefined, options: ReaderFlags): Promise<number> =>
  withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    const items = await reader.explain(run, task)
    if (options.json === true) printJson(context, items)
    else if (items.length === 0) print(context, `run ${run.id} is ${run.status}: there is nothing to explain`)
    else printSpans(context, items.map(line))
    return 0
  })

const line = ({ status, sentence }: Explanation): Span[] => {
  const known = TASK_STATUSES.find((each) => each === status) ?? "pending"
  return [iconOf(known), " ", printable(sentence)]
}
