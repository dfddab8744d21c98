// The SQL condition for the legal source states of a change, generated from the table of transitions.

import type { Change } from "../../core/model/change.ts"
import { type Transition, TRANSITIONS } from "../../core/rules/changes/transitions.ts"

const oneOf = (column: string, values: readonly string[]): string =>
  values.length === 1 ? `${column} = '${values[0]!}'` : `${column} IN (${values.map((value) => `'${value}'`).join(", ")})`

/** Returns the condition on the columns `kind`, `status` and `waiting_on` of a task row. `row`: its alias. */
export const sourceState = (change: Change["kind"], row = "tasks"): string => {
  const { kinds, from, runningMustWait }: Transition = TRANSITIONS[change]
  const others = from.filter((status) => status !== "running")
  const waits = `${row}.status = 'running' AND ${row}.waiting_on IS NOT NULL`
  const status = !runningMustWait
    ? oneOf(`${row}.status`, from)
    : others.length === 0
      ? `(${waits})`
      : `(${oneOf(`${row}.status`, others)} OR ${waits})`
  return kinds.length === ROW_KINDS ? status : `${oneOf(`${row}.kind`, kinds)} AND ${status}`
}

/** Number of kinds: a change that applies to all of them needs no condition. */
const ROW_KINDS = 3
