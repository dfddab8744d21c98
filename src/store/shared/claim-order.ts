// The claim order of core/rules/claims/claim-order.ts as SQL.

import { CLAIM_ORDER } from "../../core/rules/claims/claim-order.ts"

const COLUMN = { priority: "priority", runSeq: "run_seq", rowId: "id" } as const satisfies Record<
  (typeof CLAIM_ORDER)[number]["key"],
  string
>

/** Returns the expression of a column of a row. */
export type Columns = (name: string) => string

const columnsOf =
  (alias: string | undefined): Columns =>
  (name) =>
    alias === undefined ? name : `${alias}.${name}`

/** Returns the ORDER BY list for ready rows of one workflow. `alias`: of the table. */
export const claimOrder = (alias?: string): string => {
  const column = columnsOf(alias)
  return CLAIM_ORDER.map(({ key, descending }) => column(COLUMN[key]) + (descending ? " DESC" : "")).join(", ")
}

/** Returns the ORDER BY list for ready rows of one lane: rows of the same priority are grouped by workflow, in claim order. */
export const readyOrder = (alias?: string): string => {
  const [priority, ...rest] = claimOrder(alias).split(", ")
  return [priority, columnsOf(alias)("workflow_id"), ...rest].join(", ")
}

/** Returns the condition that `a` is claimed before `b`, a row of the same workflow. */
const precedes = (a: Columns, b: Columns): string =>
  `(${CLAIM_ORDER.map(({ key, descending }, i) => {
    const equal = CLAIM_ORDER.slice(0, i).map((earlier) => `${a(COLUMN[earlier.key])} = ${b(COLUMN[earlier.key])}`)
    return [...equal, `${a(COLUMN[key])} ${descending ? ">" : "<"} ${b(COLUMN[key])}`].join(" AND ")
  }).join(" OR ")})`

/** Returns the condition of core `precedesReady` for a ready queue that is not empty. */
export const precedesReady = (row: Columns, head: Columns): string =>
  `(${row("lane")} = ${head("lane")} AND (${row("priority")} > ${head("priority")}
      OR ${row("workflow_id")} = ${head("workflow_id")} AND ${precedes(row, head)}))`
