// A user's retry of an ended run: rows of the plan start anew, the run is running again. What the run showed of those rows
// becomes history; attempt numbers go on, budgets of retries are new.

import type { RunId } from "../../core/ids.ts"
import type { RetryReset } from "../../core/retry-plan.ts"
import type { RowKind } from "../store.ts"
import { startRun } from "./close.ts"
import { tellRun } from "./events.ts"
import { FRESH, SUPERSEDE_WHERE } from "./reset.ts"
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
  for (const reset of plan.nodes) resetNode(tx, seq, reset)
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

const NODE = "SELECT id, kind, expanded, children_total FROM tasks WHERE run_seq = ? AND node = ? AND path = ''"

const resetNode = (tx: Tx, seq: number, reset: Reset): void => {
  const found = tx.db.get<[number, RowKind, number, number | null]>(NODE, seq, reset.node)
  if (found === undefined) return
  const [id, kind, expanded, total] = found
  const whole = kind === "task" || reset.scope === "all" || expanded === 0 || expanded !== total
  const instances = whole ? 0 : resetInstances(tx, id, reset)
  resetRow(tx, id, reset, instances)
}

const SUPERSEDE_ROW = `${SUPERSEDE_WHERE} id = ?`

const RESET = `
UPDATE tasks SET ${FRESH}, parked = NULL, upstream_left = ?1, up_failed = ?2, up_unmet = ?3, up_waived = ?4, lane = ?5
WHERE id = ?6`

const FORGET_CHILDREN =
  "UPDATE tasks SET expanded = 0, children_total = NULL, children_left = NULL, children_failed = 0 WHERE id = ?"

const AWAIT_CHILDREN = `
UPDATE tasks SET status = 'running', started_at = ?1, children_left = ?2, children_failed = (
  SELECT count(*) FROM tasks c WHERE c.parent_id = ?3 AND c.status IN ('failed', 'cancelled'))
WHERE id = ?3`

const resetRow = (tx: Tx, id: number, reset: Reset, instances: number): void => {
  const { upstreamLeft, upstream, lane } = reset
  tx.db.run(SUPERSEDE_ROW, id)
  tx.db.run(RESET, upstreamLeft, upstream.failed, upstream.unmet, upstream.waived, lane, id)
  if (instances > 0) tx.db.run(AWAIT_CHILDREN, tx.at, instances, id)
  else tx.db.run(FORGET_CHILDREN, id)
}

const AGAIN = "parent_id = ?1 AND CASE WHEN ?2 IS NULL THEN status IN ('failed', 'skipped', 'cancelled') ELSE path = ?2 END"

const SUPERSEDE_INSTANCES = `${SUPERSEDE_WHERE} ${AGAIN}`

const RESET_INSTANCES = `UPDATE tasks SET ${FRESH}, parked = NULL, lane = ?3 WHERE ${AGAIN}`

/** Returns how many instances run again. */
const resetInstances = (tx: Tx, container: number, { scope, instanceLane }: Reset): number => {
  const path = typeof scope === "object" ? scope.path : null
  tx.db.run(SUPERSEDE_INSTANCES, container, path)
  return tx.db.run(RESET_INSTANCES, container, path, instanceLane)
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
