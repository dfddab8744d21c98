// Reopens a finished run for its retry: resets the rows of the plan. The attempts of reset rows move to the history; attempt numbers
// continue, retry budgets start again.

import { CANCEL_SIGNAL } from "../../../core/model/function-signals.ts"
import { PARKED_BY_GROUP } from "../../../core/rules/claims/admit.ts"
import { nodesAllowedToFail } from "../../../core/rules/changes/effects.ts"
import { resetsWhole, type RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import type { RowKind } from "../../contract/store.ts"
import { startGroupTimeout } from "../advance/group-timeouts.ts"
import { emitRun } from "../advance/events.ts"
import { CHILDLESS, FORGET_TRANSACTIONS_WHERE, OWN_LIMITS, RESET_COLUMNS, SUPERSEDE_WHERE } from "./reset.ts"
import type { Tx } from "../tx.ts"

const REOPEN = "UPDATE runs SET status = 'running', retry_plan = NULL, timeout_at = ? WHERE seq = ?"

export const reopenRun = (tx: Tx, seq: number, nodes: RetryReset["rows"]): void => {
  const { id, versionId } = tx.runs.get(seq)
  const workflow = tx.workflows.get(versionId)
  const { timeoutMs } = workflow
  const allowedToFail = JSON.stringify(nodesAllowedToFail(workflow))
  tx.db.run(REOPEN, timeoutMs === undefined ? null : tx.iso(tx.now + timeoutMs), seq)
  resetNodes(tx, seq, nodes, { allowedToFail, durable: workflow.nodes[0]!.durable === true })
  tx.db.run(RECOUNT, seq, allowedToFail)
  emitRun(tx, id, "running", null)
}

type Reset = RetryReset["rows"][number]

/** A container that keeps its children. */
interface KeptContainer {
  id: number
  node: number
  kind: RowKind
  needsSlots: boolean
}

const NODE =
  "SELECT id, kind, children_created, children_total, limits IS NOT NULL FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

/**
 * Resets the rows of the plan, which lists children before their containers. Containers then count their children. `allowedToFail`: a
 * JSON list of nodes. `durable`: the run is a durable function.
 */
const resetNodes = (
  tx: Tx,
  seq: number,
  nodes: readonly Reset[],
  { allowedToFail, durable }: { allowedToFail: string; durable: boolean },
): void => {
  const continued: KeptContainer[] = []
  for (const reset of nodes) {
    const found = tx.db.get<[number, RowKind, number, number | null, number]>(NODE, seq, reset.node, reset.path)
    if (found === undefined) continue
    const [id, kind, childrenCreated, childrenTotal, limited] = found
    const isWhole = resetsWhole({ kind, childrenCreated, childrenTotal }, reset.extent)
    if (!isWhole && reset.extent !== "await") resetInstances(tx, id, reset)
    if (!durable) tx.db.run(FORGET_TRANSACTION, id)
    resetRow(tx, id, reset)
    if (isWhole) tx.db.run(FORGET_CHILDREN, id)
    else continued.push({ id, node: reset.node, kind, needsSlots: kind === "group" && limited === 1 })
  }
  continueContainers(tx, seq, continued, allowedToFail)
}

const SUPERSEDE_ROW = `${SUPERSEDE_WHERE} id = ?`

const RESET = `
UPDATE tasks SET ${RESET_COLUMNS}, limits = ${OWN_LIMITS}, parked = NULL, upstream_pending = ?1, upstream_failed = ?2, upstream_unmet = ?3, upstream_waived = ?4, lane = ?5
WHERE id = ?6`

/** A retried function runs its failed steps again and keeps the others. */
const FORGET_FAILED_STEPS = "DELETE FROM steps WHERE task_id = ? AND state = 'failed'"

const FORGET_TRANSACTION = `${FORGET_TRANSACTIONS_WHERE} id = ?)`

const FORGET_CANCEL = "DELETE FROM signals WHERE task_id = ? AND name = ?"

const FORGET_STEP = "DELETE FROM steps WHERE task_id = ? AND name = ? AND occurrence = ?"

const FORGET_CHILDREN = `UPDATE tasks SET ${CHILDLESS} WHERE id = ?`

const OPEN_CHILDREN = "SELECT count(*) FROM tasks child WHERE child.parent_id = ?1 AND child.finished_at IS NULL"

const CHILDREN = `children_pending = children_total - children_created + (${OPEN_CHILDREN}), children_failed = (
  SELECT count(*) FROM tasks child WHERE child.parent_id = ?1 AND (child.status = 'cancelled' OR child.status = 'failed'
    AND NOT (tasks.kind = 'group' AND child.node IN (SELECT value FROM json_each(?3)))))
WHERE id = ?1 AND (children_created < children_total OR (${OPEN_CHILDREN}) > 0)`

/** A fan-out whose expansion was interrupted continues it. */
const AWAIT_CHILDREN = `
UPDATE tasks SET status = iif(children_created < children_total, 'pending', 'running'), started_at = ?2, ${CHILDREN}`

/** A group under limits continues when the gate has found slots for it. */
const AWAIT_SLOT = `UPDATE tasks SET ${CHILDREN}`

/** Parks the rows below such a group until then. */
const HOLD_BACK = `
WITH RECURSIVE below (id, is_open) AS (
  SELECT id, kind <> 'task' FROM tasks WHERE parent_id = ?1 AND finished_at IS NULL
  UNION ALL
  SELECT t.id, t.kind <> 'task'
  FROM below b CROSS JOIN tasks t INDEXED BY tasks_children ON t.parent_id = b.id WHERE b.is_open AND t.finished_at IS NULL
)
UPDATE tasks SET parked = ${PARKED_BY_GROUP} WHERE id IN (SELECT id FROM below) AND status = 'pending'`

/** Lets containers wait for the children that they keep, and groups under limits for their slots. */
const continueContainers = (tx: Tx, seq: number, continued: readonly KeptContainer[], allowedToFail: string): void => {
  const waitingForSlots = continued.filter(({ id, node, kind, needsSlots }) => {
    const continues = tx.db.run(needsSlots ? AWAIT_SLOT : AWAIT_CHILDREN, id, tx.at, allowedToFail) > 0
    if (!continues) tx.db.run(FORGET_CHILDREN, id)
    else if (!needsSlots) startGroupTimeout(tx, { id, runSeq: seq, node, kind })
    return continues && needsSlots
  })
  for (const { id } of waitingForSlots) tx.db.run(HOLD_BACK, id)
}

const resetRow = (tx: Tx, id: number, { upstreamPending, upstream, lane, steps = [] }: Reset): void => {
  tx.db.run(SUPERSEDE_ROW, id)
  tx.db.run(FORGET_FAILED_STEPS, id)
  tx.db.run(FORGET_CANCEL, id, CANCEL_SIGNAL)
  for (const { name, occurrence } of steps) tx.db.run(FORGET_STEP, id, name, occurrence)
  tx.db.run(RESET, upstreamPending, upstream.failed, upstream.unmet, upstream.waived, lane, id)
}

const AGAIN = "parent_id = ?1 AND CASE WHEN ?2 IS NULL THEN status IN ('failed', 'skipped', 'cancelled') ELSE path = ?2 END"

const FORGET_TRANSACTIONS = `${FORGET_TRANSACTIONS_WHERE} ${AGAIN})`

const SUPERSEDE_INSTANCES = `${SUPERSEDE_WHERE} ${AGAIN}`

const RESET_INSTANCES = `UPDATE tasks SET ${RESET_COLUMNS}, limits = ${OWN_LIMITS}, parked = NULL, lane = ?3 WHERE ${AGAIN}`

const resetInstances = (tx: Tx, container: number, { extent, instanceLane }: Reset): void => {
  const path = typeof extent === "object" ? extent.path : null
  tx.db.run(SUPERSEDE_INSTANCES, container, path)
  tx.db.run(FORGET_TRANSACTIONS, container, path)
  tx.db.run(RESET_INSTANCES, container, path, instanceLane)
}

const RECOUNT = `
UPDATE runs SET (open_tasks, failed, tasks_total, tasks_success, tasks_failed, tasks_skipped, tasks_cancelled) = (
  SELECT
    count(*) FILTER (WHERE parent_id IS NULL AND finished_at IS NULL),
    count(*) FILTER (WHERE parent_id IS NULL AND status = 'failed' AND node NOT IN (SELECT value FROM json_each(?2))),
    count(*) FILTER (WHERE kind = 'task'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'success'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'failed'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'skipped'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'cancelled')
  FROM tasks WHERE run_seq = ?1)
WHERE seq = ?1`
