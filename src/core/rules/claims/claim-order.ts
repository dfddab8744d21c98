// The order in which ready rows of one workflow are claimed: higher priority, then older run, then lower row number. Workflows of
// the highest priority share a claim in turn, so rows of different workflows with equal priority have no order.

export interface ReadyRow {
  lane: string
  priority: number
  workflowId: number
  runSeq: number
  row: number
}

/** Sort keys of the claim order. The stores generate their ORDER BY from them. */
export const CLAIM_ORDER = [
  { key: "priority", descending: true },
  { key: "runSeq", descending: false },
  { key: "row", descending: false },
] as const satisfies readonly { key: keyof ReadyRow; descending: boolean }[]

type Ordered = Pick<ReadyRow, (typeof CLAIM_ORDER)[number]["key"]>

/** Compares ready rows of one workflow: negative when `a` is claimed first. */
export const compareReady = (a: Ordered, b: Ordered): number => b.priority - a.priority || a.runSeq - b.runSeq || a.row - b.row

/**
 * Returns whether rows that are unblocked together share a claim: rows of several workflows do, and rows of several lanes when the
 * claim cannot take all of them. Each argument but `limit` is a number of distinct ones.
 */
export const sharesClaim = (
  { rows, workflows, lanes }: { rows: number; workflows: number; lanes: number },
  limit: number,
): boolean => workflows > 1 || (lanes > 1 && rows > limit)

/**
 * Returns whether a row that becomes ready would be claimed before all queued rows. `head`: the queued row that would be claimed
 * first, null when none is queued. The caller has checked that the head's lane and workflow share the claim with no other.
 * Postgres evaluates the rule in SQL (store/shared/claim-order.ts), inside the statement that unblocks the row.
 */
export const precedesQueued = (row: ReadyRow, head: ReadyRow | null): boolean => {
  if (head === null) return true
  if (row.lane !== head.lane) return false
  if (row.priority !== head.priority) return row.priority > head.priority
  return row.workflowId === head.workflowId && compareReady(row, head) < 0
}
