// Who holds attempts: registration, leases, and what is left by those that died. SQLite asks a judge whether a holder's process
// still lives; leases are kept for show.

import type { Fence } from "../../core/change.ts"
import type { AttemptId, HolderId, RunId } from "../../core/ids.ts"
import { JOBS, NO_RUN_FIELDS } from "../job-rows.ts"
import type { CancelReason, HolderRow, LiveAttempt, NewHolder, RowKind } from "../store.ts"
import { jobLeftBehind } from "./job-reads.ts"
import type { Session, Tx } from "./tx.ts"

const REGISTER = `
INSERT INTO holders (id, kind, name, process, run_id, lease_ms, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, process = excluded.process, run_id = excluded.run_id,
  lease_ms = excluded.lease_ms, lease_until = excluded.lease_until`

export const registerHolder = (tx: Tx, { id, kind, name, process, runId, leaseMs }: NewHolder): void => {
  tx.db.run(REGISTER, id, kind, name, process, runId, leaseMs, tx.iso(tx.now + leaseMs))
}

const RENEW = "UPDATE holders SET lease_ms = ?, lease_until = ? WHERE id = ? AND dead = 0"

export const renewHolder = (tx: Tx, id: HolderId, leaseMs: number): boolean =>
  tx.db.run(RENEW, leaseMs, tx.iso(tx.now + leaseMs), id) === 1

const BURY = "UPDATE holders SET dead = 1 WHERE id = ?"

const REMOVE_IDLE = `
DELETE FROM holders WHERE dead = 1 AND NOT EXISTS (
  SELECT 1 FROM tasks INDEXED BY tasks_held WHERE tasks.holder IS NOT NULL AND tasks.holder = holders.seq)`

/** What it still holds is given up on, for the next `reapHolders`. */
export const removeHolder = (tx: Tx, id: HolderId): void => {
  tx.db.run(BURY, id)
  tx.db.run(REMOVE_IDLE)
}

const LIST = "SELECT id, kind, name, process, run_id, lease_ms, lease_until, dead FROM holders ORDER BY seq"

type Columns = [HolderId, HolderRow["kind"], string, string, RunId | null, number, string, number]

export const listHolders = (session: Session): HolderRow[] =>
  session.db.all<Columns>(LIST).map(([id, kind, name, process, runId, leaseMs, leaseUntil, dead]) => ({
    id,
    kind,
    name,
    process,
    runId,
    leaseMs,
    leaseUntil,
    dead: dead === 1,
  }))

const HELD = `
SELECT t.id, t.attempt_id FROM tasks t INDEXED BY tasks_held JOIN holders h ON h.seq = t.holder
WHERE t.holder IS NOT NULL AND h.id = ? ORDER BY t.id`

export const heldBy = (session: Session, id: HolderId): Fence[] =>
  session.db.all<[number, AttemptId]>(HELD, id).map(([row, attemptId]) => ({ row, attemptId }))

const OF_DEAD = `
FROM tasks t INDEXED BY tasks_held JOIN holders h ON h.seq = t.holder LEFT JOIN runs r ON r.seq = t.run_seq
WHERE t.holder IS NOT NULL AND h.dead = 1`

const RELEASE_GATES = `
UPDATE tasks SET attempt_id = NULL, holder = NULL WHERE id IN (SELECT t.id ${OF_DEAD} AND t.status = 'pending')`

const LEFT_BEHIND = `
SELECT t.id, t.attempt_id, t.run_seq, r.id, r.version_id, t.node, t.path, t.kind, t.attempt, t.failures, t.losses, t.started_at,
  t.external_id, iif(t.run_seq = ${JOBS} AND EXISTS (SELECT 1 FROM stops s WHERE s.task_id = t.id), 'cancel', r.cancelling)
${OF_DEAD} AND t.status IN ('dispatched', 'running') ORDER BY t.id LIMIT ?`

type LeftBehind = [
  number,
  AttemptId,
  number,
  LiveAttempt["runId"],
  number,
  number,
  string,
  RowKind,
  number,
  number,
  number,
  string | null,
  string | null,
  CancelReason | null,
]

export const reapHolders = (tx: Tx, limit: number, isDead: (holder: HolderRow) => boolean): LiveAttempt[] => {
  const holders = listHolders(tx)
  for (const holder of holders) if (!holder.dead && isDead(holder)) tx.db.run(BURY, holder.id)
  if (tx.db.run(RELEASE_GATES) > 0) tx.wakeOthers = true
  const left = tx.db.all<LeftBehind>(LEFT_BEHIND, limit)
  tx.db.run(REMOVE_IDLE)
  return left.map((c) => ({
    row: c[0],
    attemptId: c[1],
    ...(c[2] === JOBS ? NO_RUN_FIELDS : { runSeq: c[2], runId: c[3], versionId: c[4], node: c[5], path: c[6] }),
    job: c[2] === JOBS ? jobLeftBehind(tx, c[0]) : null,
    kind: c[7],
    attempt: c[8],
    failures: c[9],
    losses: c[10],
    startedAt: c[11],
    externalId: c[12],
    cancelling: c[13],
  }))
}
