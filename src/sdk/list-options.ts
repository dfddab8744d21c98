// Checks the options of `list`, for the engine in this process and the client of a server alike.

import { JOB_STATUSES } from "../core/rules/jobs/jobs.ts"
import { RUN_STATUSES } from "../core/model/status.ts"
import type { JobState, ListOptions, RunState } from "./orkable.ts"

const JOB_STATES = JOB_STATUSES.map((status) => status.toLowerCase() as JobState)

/** Throws for a status that the listed work never has: the list would always be empty. */
export const checkStatuses = (status: ListOptions["status"], of: "job" | "run"): void => {
  if (status === undefined) return
  if (typeof status === "string") throw new TypeError('list: status must be a list, such as ["failed"]')
  const known: readonly (JobState | RunState)[] = of === "job" ? JOB_STATES : RUN_STATUSES
  const unknown = status.find((each) => !known.includes(each))
  if (unknown !== undefined)
    throw new TypeError(`list: no ${of} has the status ${JSON.stringify(unknown)}; its statuses are ${known.join(", ")}`)
}
