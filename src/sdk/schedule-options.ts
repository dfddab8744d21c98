// Checks what a program gives for a schedule, for the engine in this process and the client of a server alike.

import { cronProblem, isTimezone } from "../core/time/cron.ts"
import { checkOneOf, checkScheduleName } from "./checks.ts"
import { checkNames, SCHEDULE } from "./option-names.ts"
import type { ScheduleOptions } from "./orkable.ts"

const CATCHUP = ["none", "latest", "all"] as const
const OVERLAP = ["allow", "skip", "queue", "cancel"] as const

/** Returns the options with their defaults. */
export const checkSchedule = (
  name: string,
  cron: string,
  options: ScheduleOptions,
): Required<ScheduleOptions> & { cron: string } => {
  const what = `the schedule ${JSON.stringify(name)}`
  checkScheduleName(name)
  checkNames(options, SCHEDULE, what)
  const { timezone = "UTC", catchup = "none", overlap = "skip" } = options
  const problem = cronProblem(cron)
  if (problem !== null) throw new TypeError(`${what}: ${problem}`)
  if (!isTimezone(timezone))
    throw new TypeError(`${what}: ${JSON.stringify(timezone)} is not a time zone; use an IANA name such as Europe/Berlin`)
  checkOneOf(catchup, CATCHUP, `${what}: catchup`)
  checkOneOf(overlap, OVERLAP, `${what}: overlap`)
  return { cron, timezone, catchup, overlap }
}
