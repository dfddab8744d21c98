// The SQL condition for the legal source states of a change, generated from the table of transitions.

import type { Change } from "../../core/model/change.ts"
import { type Transition, TRANSITIONS } from "../../core/rules/transitions.ts"

const list = (values: readonly string[]): string => values.map((value) => `'${value}'`).join(", ")

/** Condition on the columns `status` and `waiting_on` of a task row. `row`: its alias. */
export const sourceStatus = (change: Change["kind"], row = "tasks"): string => {
  const { from, runningMustWait }: Transition = TRANSITIONS[change]
  if (!runningMustWait) return from.length === 1 ? `${row}.status = '${from[0]!}'` : `${row}.status IN (${list(from)})`
  const others = from.filter((status) => status !== "running")
  return `(${row}.status IN (${list(others)}) OR ${row}.status = 'running' AND ${row}.waiting_on IS NOT NULL)`
}
