// The order in which ready rows of one workflow are claimed: higher priority, then older run, then lower row number. Workflows of
// the highest priority share a claim in turn, so rows of different workflows with equal priority have no order.

export interface ReadyRow {
  lane: string
  priority: number
  workflowId: number
  runSeq: number
  rowId: number
}

/** Sort keys of the claim order. The stores generate their ORDER BY from them. */
export const CLAIM_ORDER = [
  { key: "priority", descending: true },
  { key: "runSeq", descending: false },
  { key: "rowId", descending: false },
] as const satisfies readonly { key: keyof ReadyRow; descending: boolean }[]

type Ordered = Pick<ReadyRow, (typeof CLAIM_ORDER)[number]["key"]>

/** Compares ready rows of one workflow: negative when `a` is claimed first. */
export const compareReady = (a: Ordered, b: Ordered): number =>
  b.priority - a.priority || a.runSeq - b.runSeq || a.rowId - b.rowId

/**
 * Returns whether a claim chooses by round robin among rows that are unblocked together: among those of several workflows, and among
 * those of several lanes when it cannot take all of them. `workflows`, `lanes`: numbers of different ones.
 */
export const needsRoundRobin = (
  { rows, workflows, lanes }: { rows: number; workflows: number; lanes: number },
  maxClaims: number,
): boolean => workflows > 1 || (lanes > 1 && rows > maxClaims)

/**
 * Returns whether a row that becomes ready would be claimed before all ready rows. `head`: the ready row that would be claimed
 * first, null when there is none. The caller has checked that the claim of the head needs no round robin.
 * Postgres evaluates the rule in SQL (store/shared/claim-order.ts), inside the statement that unblocks the row.
 */
export const precedesReady = (row: ReadyRow, head: ReadyRow | null): boolean => {
  if (head === null) return true
  if (row.lane !== head.lane) return false
  if (row.priority !== head.priority) return row.priority > head.priority
  return row.workflowId === head.workflowId && compareReady(row, head) < 0
}
