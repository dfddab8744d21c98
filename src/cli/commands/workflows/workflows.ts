// `ork workflows`: lists deployed workflows.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { firstItems } from "../../target/pages.ts"
import { iconOf } from "../../progress/icons.ts"
import { printListing } from "../../terminal/listing.ts"
import { parseLimit } from "../../terminal/option-values.ts"
import { localZone, timeText } from "../../terminal/times.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import type { WorkflowSummary } from "../../../protocol/client/client.ts"

export interface WorkflowsOptions extends ServerFlags {
  tag?: string
  search?: string
  limit: string
}

/** Latest runs that a line shows, oldest first. */
const SHOWN_RUNS = 10

export const workflows = async (context: Context, options: WorkflowsOptions): Promise<number> => {
  const limit = parseLimit(options.limit)
  const client = await connect(context, options)
  const filter = omitUndefined({ tag: options.tag, search: options.search })
  const zone = localZone(context)
  return printListing(context, options, {
    items: await firstItems((page) => client.listWorkflows({ ...filter, ...page }), limit),
    none: "no workflows; deploy one with `ork deploy FILE`",
    header: ["workflow", "version", "latest runs", "last run", "starts", "tags"],
    row: (workflow) => [
      workflow.name,
      String(workflow.version),
      iconsOf(workflow),
      timeText(workflow.last_runs[0]?.created_at ?? null, zone),
      workflow.paused ? "paused" : startsText(workflow, zone),
      workflow.tags.join(","),
    ],
  })
}

/** Returns the next tick, the workflows that it follows, and the files that it takes. */
const startsText = ({ next_at, triggers }: WorkflowSummary, zone: string): string =>
  [
    ...(next_at === null ? [] : [timeText(next_at, zone)]),
    ...triggers.map(({ after, when, path }) =>
      after === null ? `path ${path ?? ""}` : `after ${after.join(when === "all" ? " and " : " or ")}`,
    ),
  ].join("; ")

const iconsOf = ({ last_runs: runs }: WorkflowSummary): string =>
  runs
    .slice(0, SHOWN_RUNS)
    .map(({ status }) => iconOf(status)[0])
    .toReversed()
    .join("")
