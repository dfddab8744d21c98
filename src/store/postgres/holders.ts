// Who holds attempts, by leases on the database's clock, and what is left by those that died.

import type { Fence } from "../../core/change.ts"
import type { HolderId } from "../../core/ids.ts"
import { JOBS, NO_RUN_FIELDS } from "../job-rows.ts"
import type { HolderRow, LiveAttempt, NewHolder } from "../store.ts"
import { jobsLeftBehind } from "./job-reads.ts"
import { type Runner, statement } from "./session.ts"

const UNTIL = "COALESCE($1::timestamptz, now()) + $2::int * interval '1 millisecond'"

const REGISTER = statement(
  "holder_register",
  `INSERT INTO holders (id, kind, name, process, run_id, lease_ms, lease_until)
   VALUES ($3::uuid, $4, $5, $6, $7::uuid, $2, ${UNTIL})
   ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, process = excluded.process,
     run_id = excluded.run_id, lease_ms = excluded.lease_ms, lease_until = excluded.lease_until`,
)

export const registerHolder = async (tx: Runner, now: string | null, holder: NewHolder): Promise<void> => {
  const { id, kind, name, process, runId, leaseMs } = holder
  await tx.run(REGISTER, [now, leaseMs, id, kind, name, process, runId])
}

const RENEW = statement(
  "holder_renew",
  `UPDATE holders SET lease_ms = $2, lease_until = ${UNTIL} WHERE id = $3::uuid AND NOT dead RETURNING id`,
)

export const renewHolder = async (tx: Runner, now: string | null, id: HolderId, leaseMs: number): Promise<boolean> =>
  (await tx.run(RENEW, [now, leaseMs, id])).length === 1

const BURY = statement("holder_bury", "UPDATE holders SET dead = true WHERE id = $1::uuid")

const REMOVE_IDLE = statement(
  "holders_remove_idle",
  `DELETE FROM holders h WHERE h.dead
   AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.holder IS NOT NULL AND t.holder = h.id)`,
)

/** What it still holds is given up on, for the next `reapHolders`. */
export const removeHolder = async (tx: Runner, id: HolderId): Promise<void> => {
  await tx.run(BURY, [id])
  await tx.run(REMOVE_IDLE)
}

const LIST = statement(
  "holders_list",
  `SELECT id, kind, name, process, run_id AS "runId", lease_ms AS "leaseMs", lease_until AS "leaseUntil", dead
   FROM holders ORDER BY seq`,
)

export const listHolders = (session: Runner): Promise<HolderRow[]> => session.run(LIST)

const HELD = statement(
  "holder_held",
  `SELECT id AS row, attempt_id AS "attemptId" FROM tasks WHERE holder IS NOT NULL AND holder = $1::uuid ORDER BY id`,
)

export const heldBy = (session: Runner, id: HolderId): Promise<Fence[]> => session.run(HELD, [id])

const BURY_LATE = statement(
  "holders_bury_late",
  "UPDATE holders SET dead = true WHERE NOT dead AND lease_until < COALESCE($1::timestamptz, now())",
)

/** A holder whose row is gone is dead too: it claimed while it was being removed. */
const OF_DEAD = `t.holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.id = t.holder AND NOT h.dead)`

const RELEASE_GATES = statement(
  "holders_release_gates",
  `UPDATE tasks SET attempt_id = NULL, holder = NULL WHERE id IN (
     SELECT t.id FROM tasks t WHERE ${OF_DEAD} AND t.status = 'pending' FOR UPDATE SKIP LOCKED)
   RETURNING id`,
)

const LEFT_BEHIND = statement(
  "holders_left_behind",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", t.run_seq AS "runSeq", r.id AS "runId", r.version_id AS "versionId", t.node,
     t.path, t.kind, t.attempt, t.failures, t.losses, t.started_at AS "startedAt", t.external_id AS "externalId",
     CASE WHEN s.task_id IS NULL THEN r.cancelling ELSE 'cancel' END AS cancelling
   FROM tasks t LEFT JOIN runs r ON r.seq = t.run_seq LEFT JOIN stops s ON s.task_id = t.id
   WHERE ${OF_DEAD} AND t.status IN ('dispatched', 'running') ORDER BY t.id LIMIT $1`,
)

/** `released`: gate claims that others may take now. */
export const reapHolders = async (
  tx: Runner,
  now: string | null,
  limit: number,
): Promise<{ left: LiveAttempt[]; released: number }> => {
  await tx.run(BURY_LATE, [now])
  const released = await tx.run(RELEASE_GATES)
  const found = await tx.run<Omit<LiveAttempt, "job">>(LEFT_BEHIND, [limit])
  const jobOf = await jobsLeftBehind(
    tx,
    found.filter(({ runSeq }) => runSeq === JOBS).map(({ row }) => row),
  )
  const { runSeq, runId, versionId, node, path } = NO_RUN_FIELDS
  const left = found.map((row) =>
    row.runSeq === JOBS ? { ...row, runSeq, runId, versionId, node, path, job: jobOf(row.row) } : { ...row, job: null },
  )
  await tx.run(REMOVE_IDLE)
  return { left, released: released.length }
}
