// A user's retry of an ended run: rows of the plan start anew, the run is running again. What the run showed of those rows
// becomes history; attempt numbers go on, budgets of retries are new.

import type { RunId } from "../../core/ids.ts"
import type { RetryReset } from "../../core/retry-plan.ts"
import type { RowKind } from "../store.ts"
import { startRun } from "./close.ts"
import { limitIds } from "./limits.ts"
import { tellRun } from "./events.ts"
import { CHILDLESS, FRESH, SUPERSEDE_WHERE } from "./reset.ts"
import type { Tx } from "./tx.ts"

const ENDED = `
SELECT seq, version_id FROM runs WHERE id = ?1 AND finished_at IS NOT NULL AND hooks_left = 0 AND finished_at = coalesce(?2, finished_at)`

const ROWS = "SELECT 1 FROM tasks INDEXED BY tasks_of_run WHERE run_seq = ? AND hook = 0 LIMIT 1"

const REOPEN = `
UPDATE runs SET status = 'running', cancelling = NULL, paused = 0, finished_at = NULL, error = NULL, open = 0, timeout_at = ?
WHERE seq = ?`

export const retryRun = (tx: Tx, runId: RunId, plan: RetryReset): boolean => {
  const run = tx.db.get<[number, number]>(ENDED, runId, plan.endedAt ?? null)
  if (run === undefined) return false
  const [seq, versionId] = run
  dropHooks(tx, seq)
  const { timeoutMs } = tx.versions.get(versionId)
  tx.db.run(REOPEN, timeoutMs === undefined ? null : tx.iso(tx.now + timeoutMs), seq)
  tx.wakeOthers = true
  // Cancelled before it had begun: there is nothing to reset.
  if (tx.db.get(ROWS, seq) === undefined) {
    startRun(tx, seq)
    return true
  }
  resetNodes(tx, seq, plan.nodes)
  tx.db.run(RECOUNT, seq)
  tellRun(tx, tx.facts.get(seq).id, "running", null)
  return true
}

const HOOKS = "run_seq = ? AND hook = 1"

const DROP_HOOK_ATTEMPTS = `DELETE FROM attempts WHERE task_id IN (SELECT id FROM tasks WHERE ${HOOKS})`

const DROP_HOOKS = `DELETE FROM tasks WHERE ${HOOKS}`

const dropHooks = (tx: Tx, seq: number): void => {
  tx.db.run(DROP_HOOK_ATTEMPTS, seq)
  tx.db.run(DROP_HOOKS, seq)
}

type Reset = RetryReset["nodes"][number]

const NODE = "SELECT id, kind, expanded, children_total, limits FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

/** Children before their containers, which count them. A group that goes on is open, and has its slots, whatever is free. */
const resetNodes = (tx: Tx, seq: number, nodes: readonly Reset[]): void => {
  const awaiting: { id: number; slots: readonly number[] }[] = []
  for (const reset of nodes) {
    const found = tx.db.get<[number, RowKind, number, number | null, string | null]>(NODE, seq, reset.node, reset.path)
    if (found === undefined) continue
    const [id, kind, expanded, total, limits] = found
    const whole = kind === "task" || reset.scope === "all" || expanded === 0 || expanded !== total
    if (!whole && reset.scope !== "await") resetInstances(tx, id, reset)
    resetRow(tx, id, reset)
    if (whole) tx.db.run(FORGET_CHILDREN, id)
    else awaiting.push({ id, slots: kind === "group" ? limitIds(limits) : [] })
  }
  for (const { id, slots } of awaiting) {
    if (tx.db.run(AWAIT_CHILDREN, tx.at, id) === 0) tx.db.run(FORGET_CHILDREN, id)
    else for (const limit of slots) tx.limits.use(limit, 1)
  }
  tx.limits.save()
}

const SUPERSEDE_ROW = `${SUPERSEDE_WHERE} id = ?`

const RESET = `
UPDATE tasks SET ${FRESH}, parked = NULL, upstream_left = ?1, up_failed = ?2, up_unmet = ?3, up_waived = ?4, lane = ?5
WHERE id = ?6`

const FORGET_CHILDREN = `UPDATE tasks SET ${CHILDLESS} WHERE id = ?`

const OPEN_CHILDREN = "SELECT count(*) FROM tasks c WHERE c.parent_id = ?2 AND c.finished_at IS NULL"

const AWAIT_CHILDREN = `
UPDATE tasks SET status = 'running', started_at = ?1, children_left = (${OPEN_CHILDREN}), children_failed = (
  SELECT count(*) FROM tasks c WHERE c.parent_id = ?2 AND c.status IN ('failed', 'cancelled'))
WHERE id = ?2 AND (${OPEN_CHILDREN}) > 0`

const resetRow = (tx: Tx, id: number, { upstreamLeft, upstream, lane }: Reset): void => {
  tx.db.run(SUPERSEDE_ROW, id)
  tx.db.run(RESET, upstreamLeft, upstream.failed, upstream.unmet, upstream.waived, lane, id)
}

const AGAIN = "parent_id = ?1 AND CASE WHEN ?2 IS NULL THEN status IN ('failed', 'skipped', 'cancelled') ELSE path = ?2 END"

const SUPERSEDE_INSTANCES = `${SUPERSEDE_WHERE} ${AGAIN}`

const RESET_INSTANCES = `UPDATE tasks SET ${FRESH}, parked = NULL, lane = ?3 WHERE ${AGAIN}`

const resetInstances = (tx: Tx, container: number, { scope, instanceLane }: Reset): void => {
  const path = typeof scope === "object" ? scope.path : null
  tx.db.run(SUPERSEDE_INSTANCES, container, path)
  tx.db.run(RESET_INSTANCES, container, path, instanceLane)
}

const RECOUNT = `
UPDATE runs SET (open, failed, tasks_total, tasks_success, tasks_failed, tasks_skipped, tasks_cancelled) = (
  SELECT
    count(*) FILTER (WHERE parent_id IS NULL AND finished_at IS NULL),
    count(*) FILTER (WHERE parent_id IS NULL AND status = 'failed'),
    count(*) FILTER (WHERE kind = 'task'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'success'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'failed'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'skipped'),
    count(*) FILTER (WHERE kind = 'task' AND status = 'cancelled')
  FROM tasks WHERE run_seq = ?1)
WHERE seq = ?1`
