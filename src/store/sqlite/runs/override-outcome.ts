// A task that somebody ends, or judges anew, by hand.

import { edgesOf } from "../../../core/rules/effects.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { type RunStatus, type SkipReason, type TaskEnd, taskEnded, upstreamEnd } from "../../../core/model/status.ts"
import type { StatsStore } from "../../contract/stats.ts"
import { taskFailed } from "../../../core/rules/messages.ts"
import { tellRun, tellTask } from "../advance/events.ts"
import { COUNTER, Effects } from "../advance/unblock.ts"
import { type LoadedRow, loadRows, ROOM } from "./insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

type Mark = Parameters<StatsStore["overrideOutcome"]>[0]

const FIND = `
SELECT t.id FROM runs r JOIN tasks t ON t.run_seq = r.seq AND t.node = ?2 AND t.path = ?3 WHERE r.id = ?1`

const VERSION = "SELECT version_id FROM runs WHERE id = ?"

export const markTask = (tx: Tx, mark: Mark): Awaited<ReturnType<StatsStore["overrideOutcome"]>> => {
  const row = findRow(tx, mark)
  if (row === null) return "not_found"
  const effects = new Effects(tx)
  if (taskEnded(row.status)) judgeAnew(tx, effects, row, row.status, mark)
  else if (row.isWaiting) endWaiting(tx, effects, row, mark)
  else if (row.status !== "pending" || row.attemptId !== null || row.childrenCreated > 0) return "live"
  else endPending(tx, effects, row, mark)
  effects.apply()
  effects.unpark()
  closeAnew(tx, row.runSeq, mark)
  tx.wakeOthers = true
  return "done"
}

const findRow = (tx: Tx, { runId, name, path }: Mark): LoadedRow | null => {
  const version = tx.db.get<[number]>(VERSION, runId)
  if (version === undefined) return null
  const node = tx.versions.get(version[0]).nodes.findIndex((each) => each.name === name)
  const found = tx.db.get<[number]>(FIND, runId, node, path)
  return found === undefined ? null : loadRows(tx, [found[0]]).get(found[0])!
}

const END = `
UPDATE tasks SET status = ?, error = ?, finished_at = ?, parked = NULL, available_at = NULL, room = ${ROOM.ended}
WHERE id = ? AND status = 'pending'`

const errorOf = ({ status, reason }: Mark): string | null => (status === "failed" ? reason : null)

const WAS_READY = "SELECT parked IS NULL AND upstream_pending = 0 FROM tasks WHERE id = ?"

const endPending = (tx: Tx, effects: Effects, row: LoadedRow, mark: Mark): void => {
  const [wasReady] = tx.db.get<[number]>(WAS_READY, row.id)!
  tx.db.run(END, mark.status, errorOf(mark), tx.at, row.id)
  if (wasReady === 1) effects.passedOn(row.limits)
  effects.ended(row, mark.status, null, true)
  tell(tx, row, mark)
}

const END_WAITING = `
UPDATE tasks SET status = ?, outcome = ?, error = ?, finished_at = ?, holder = NULL, waiting_on = NULL, resume_at = NULL, cancel_requested = 0,
  parked = NULL
WHERE id = ? AND waiting_on IS NOT NULL`

/** Whoever has it woken just now finds its fence gone. */
const endWaiting = (tx: Tx, effects: Effects, row: LoadedRow, mark: Mark): void => {
  tx.db.run(END_WAITING, mark.status, mark.status, errorOf(mark), tx.at, row.id)
  effects.ended(row, mark.status, null, true)
  tell(tx, row, mark)
}

const SKIP = "SELECT skip_reason FROM tasks WHERE id = ?"

const CHANGE = "UPDATE tasks SET status = ?, skip_reason = NULL, error = ? WHERE id = ?"

const COUNT_FAILED = "UPDATE tasks SET children_failed = children_failed + ? WHERE id = ?"

const judgeAnew = (tx: Tx, effects: Effects, row: LoadedRow, before: TaskEnd, mark: Mark): void => {
  const [skip] = tx.db.get<[SkipReason | null]>(SKIP, row.id)!
  tx.db.run(CHANGE, mark.status, errorOf(mark), row.id)
  const run = effects.run(row.runSeq)
  if (row.kind === "task" && !row.hook) {
    run[COUNTER[before]] -= 1
    run[COUNTER[mark.status]] += 1
  }
  const change = (is: (status: TaskEnd) => boolean): number => Number(is(mark.status)) - Number(is(before))
  if (row.parent !== null) {
    const more = change((status) => status === "failed" || status === "cancelled")
    tx.db.run(COUNT_FAILED, more, row.parent)
  } else if (!row.hook) run.failed += change((status) => status === "failed")
  recount(tx, row, before, skip, mark.status)
  tell(tx, row, mark)
}

const RECOUNT = `
UPDATE tasks SET upstream_failed = upstream_failed + ?, upstream_unmet = upstream_unmet + ?, upstream_waived = upstream_waived + ?, lane = coalesce(?, lane)
WHERE run_seq = ? AND node = ? AND path = ? AND status = 'pending' AND attempt_id IS NULL`

/** What is below and still waits is judged by the new end. */
const recount = (tx: Tx, row: LoadedRow, before: TaskEnd, skip: SkipReason | null, after: TaskEnd): void => {
  const fact = tx.facts.get(row.runSeq)
  const old = upstreamEnd(before, skip)
  for (const { node, path, end, reroute } of edgesOf(tx.versions.get(fact.versionId), fact, row, upstreamEnd(after, null))) {
    const change = { success: 0, failed: 0, unmet: 0, waived: 0 }
    change[old] -= 1
    change[end] += 1
    tx.db.run(RECOUNT, change.failed, change.unmet, change.waived, reroute, row.runSeq, node, path)
  }
}

const tell = (tx: Tx, row: LoadedRow, { status, reason }: Mark): void =>
  tellTask(tx, row, { status, at: tx.at, attempt: row.attempt, error: status === "failed" ? reason : undefined })

const RUN = "SELECT id, status, failed FROM runs WHERE seq = ?"

const BAD = `
SELECT 1 FROM tasks INDEXED BY tasks_of_run
WHERE run_seq = ? AND status IN ('failed', 'cancelled') AND parent_id IS NULL AND hook = 0 LIMIT 1`

const CLOSE = "UPDATE runs SET status = ?, error = ? WHERE seq = ?"

/** A run that has ended is failed or a success by what its tasks are now; a cancelled one stays so. Hooks do not run again. */
const closeAnew = (tx: Tx, seq: number, { name }: Mark): void => {
  const [id, status, failed] = tx.db.get<[RunId, RunStatus, number]>(RUN, seq)!
  const close = (now: RunStatus, error: string | null): void => {
    tx.db.run(CLOSE, now, error, seq)
    tellRun(tx, id, now, error)
  }
  if (status === "success" && failed > 0) close("failed", taskFailed(name))
  if (status === "failed" && failed === 0 && tx.db.get(BAD, seq) === undefined) close("success", null)
}
