// The claim order of core/rules/claim-order.ts as SQL.

import { CLAIM_ORDER } from "../../core/rules/claim-order.ts"

const COLUMN = { priority: "priority", runSeq: "run_seq", row: "id" } as const satisfies Record<
  (typeof CLAIM_ORDER)[number]["key"],
  string
>

/** ORDER BY list for ready rows of one workflow. `row`: alias of the table. */
export const claimOrder = (row?: string): string =>
  CLAIM_ORDER.map(({ key, descending }) => {
    const column = row === undefined ? COLUMN[key] : `${row}.${COLUMN[key]}`
    return descending ? `${column} DESC` : column
  }).join(", ")

/** Condition: the row `a` of a workflow is claimed before its row `b`. Each maps a column to an expression. */
export const precedes = (a: (column: string) => string, b: (column: string) => string): string =>
  `(${CLAIM_ORDER.map(({ key, descending }, i) => {
    const equal = CLAIM_ORDER.slice(0, i).map((earlier) => `${a(COLUMN[earlier.key])} = ${b(COLUMN[earlier.key])}`)
    return [...equal, `${a(COLUMN[key])} ${descending ? ">" : "<"} ${b(COLUMN[key])}`].join(" AND ")
  }).join(" OR ")})`
