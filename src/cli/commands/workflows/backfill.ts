// `ork backfill WORKFLOW`: creates a run for each tick of the workflow's schedule in a range.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { findWorkflow } from "../../target/find-workflow.ts"
import { parseWholeNumber } from "../../terminal/option-values.ts"
import { printResult } from "../../terminal/output.ts"
import { plural } from "../../terminal/text.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"

export interface BackfillOptions extends ServerFlags {
  from: string
  to: string
  plan?: boolean
  maxActiveRuns?: string
}

export const backfill = async (context: Context, name: string, options: BackfillOptions): Promise<number> => {
  const { from, to, plan } = options
  const maxActiveRuns = parseWholeNumber("--max-active-runs", options.maxActiveRuns, 1, 1000)
  const client = await connect(context, options)
  await findWorkflow(client, name)
  const created = await client.backfill(name, omitUndefined({ from, to, plan, max_active_runs: maxActiveRuns }))
  const { ticks, runs } = created
  const lines =
    plan === true ? [...ticks, plural(ticks.length, "tick")] : [...runs, `${plural(runs.length, "run")}, one for each tick`]
  return printResult(context, options, created, lines.join("\n"))
}
