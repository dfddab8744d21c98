// Who holds attempts, by leases on the database's clock, and what is left by those that died.

import type { HolderId } from "../../../core/model/ids.ts"
import type { WorkerCapabilities } from "../../../core/routing/capabilities.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { InFlightAttempt, LeaseHolderRow, LiveAttempt, LiveTask, NewLeaseHolder } from "../../contract/store.ts"
import { jobsOfOrphans } from "../claim/job-claim.ts"
import { IN_FLIGHT_ROWS, deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const UNTIL = "COALESCE(:now::timestamptz, now()) + :leaseMs::int * interval '1 millisecond'"

const REGISTER = statement(
  "holder_register",
  `INSERT INTO holders (id, kind, name, process, run_id, lease_ms, lease_until, capabilities, token_hash)
   VALUES (:id::uuid, :kind, :name, :process, :runId::uuid, :leaseMs::int, ${UNTIL}, :capabilities, :tokenHash)
   ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, process = excluded.process,
     run_id = excluded.run_id, lease_ms = excluded.lease_ms, lease_until = excluded.lease_until, capabilities = excluded.capabilities,
     token_hash = excluded.token_hash`,
)

export const registerHolder = async (tx: SqlRunner, now: string | null, holder: NewLeaseHolder): Promise<void> => {
  const { id, kind, name, process, runId, leaseMs, capabilities = null, tokenHash = null } = holder
  const text = capabilities === null ? null : JSON.stringify(capabilities)
  await tx.run(REGISTER, { now, leaseMs, id, kind, name, process, runId, capabilities: text, tokenHash })
}

const RENEW = statement(
  "holder_renew",
  `UPDATE holders SET lease_ms = :leaseMs::int, lease_until = ${UNTIL} WHERE id = :id::uuid AND NOT dead RETURNING id`,
)

export const renewHolder = async (tx: SqlRunner, now: string | null, id: HolderId, leaseMs: number): Promise<boolean> =>
  (await tx.run(RENEW, { now, leaseMs, id })).length === 1

/** Another server that is alive could have renewed them. */
const FORGIVE = statement(
  "workers_forgive",
  `UPDATE holders w SET lease_until = COALESCE(:now::timestamptz, now()) + w.lease_ms * interval '1 millisecond'
   WHERE w.kind = 'worker' AND NOT w.dead AND w.lease_until < COALESCE(:now::timestamptz, now()) AND NOT EXISTS (
     SELECT 1 FROM holders s WHERE s.kind = 'server' AND NOT s.dead AND s.lease_until >= COALESCE(:now::timestamptz, now()))`,
)

export const forgiveWorkers = async (tx: SqlRunner, now: string | null): Promise<void> => {
  await tx.run(FORGIVE, { now })
}

const TOKEN = statement(
  "worker_token",
  `SELECT token_hash AS "tokenHash" FROM holders WHERE id = :id::uuid AND kind = 'worker' AND NOT dead`,
)

export const workerToken = async (session: SqlRunner, id: HolderId): Promise<string | null> =>
  (await session.run<{ tokenHash: string | null }>(TOKEN, { id }))[0]?.tokenHash ?? null

const BURY = statement("holder_bury", "UPDATE holders SET dead = true WHERE id = :id::uuid")

const REMOVE_IDLE = statement(
  "holders_remove_idle",
  `DELETE FROM holders h WHERE h.dead
   AND NOT EXISTS (SELECT 1 FROM ${IN_FLIGHT_ROWS()} WHERE t.holder = h.id)`,
)

/** What it still holds is given up on, for the next `reapHolders`. */
export const removeHolder = async (tx: SqlRunner, id: HolderId): Promise<void> => {
  await tx.run(BURY, { id })
  await tx.run(REMOVE_IDLE)
}

const HOLDERS = statement(
  "holders_list",
  `SELECT h.id, h.kind, h.name, h.process, h.run_id AS "runId", h.lease_ms AS "leaseMs", h.lease_until AS "leaseUntil", h.dead,
     h.capabilities, COALESCE(a.in_flight, 0)::int AS "inFlight"
   FROM holders h LEFT JOIN (
     SELECT t.holder, count(*) AS in_flight FROM ${IN_FLIGHT_ROWS()} WHERE t.status <> 'pending' GROUP BY t.holder
   ) a ON a.holder = h.id ORDER BY h.seq`,
)

export const listHolders = async (session: SqlRunner): Promise<LeaseHolderRow[]> => {
  const rows = await session.run<Omit<LeaseHolderRow, "capabilities"> & { capabilities: string | null }>(HOLDERS)
  const parse = (text: string | null): WorkerCapabilities | null =>
    text === null ? null : (JSON.parse(text) as WorkerCapabilities)
  return rows.map((row) => ({ ...row, capabilities: parse(row.capabilities) }))
}

const HELD_BY = statement(
  "holder_held",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", CASE WHEN s.task_id IS NULL THEN r.cancelling ELSE 'cancel' END AS stop,
     CASE WHEN t.waiting_on IS NULL THEN 0 ELSE t.resumes END AS resumes
   FROM ${IN_FLIGHT_ROWS()} LEFT JOIN runs r ON r.seq = t.run_seq LEFT JOIN stop_requests s ON s.task_id = t.id
   WHERE t.holder = :id::uuid ORDER BY t.id`,
)

export const heldBy = (session: SqlRunner, id: HolderId): Promise<InFlightAttempt[]> => session.run(HELD_BY, { id })

const BURY_LATE = statement(
  "holders_bury_late",
  `UPDATE holders SET dead = true
   WHERE NOT dead AND lease_until < COALESCE(:now::timestamptz, now()) AND (:workers::boolean OR kind <> 'worker')`,
)

/** A holder whose row is gone is dead too: it claimed while it was being removed. */
const OF_DEAD = `t.holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.id = t.holder AND NOT h.dead)`

/** Found first, and locked then: a lock on what comes from the list would be one on all that is held. */
const LOCKED = (which: string): string => `ARRAY(
       SELECT t.id FROM tasks t WHERE t.id = ANY (ARRAY(SELECT t.id FROM ${IN_FLIGHT_ROWS()} WHERE ${OF_DEAD} AND ${which}))
         AND ${OF_DEAD} AND ${which} FOR UPDATE SKIP LOCKED)`

const RELEASE_GATES = statement(
  "holders_release_gates",
  `WITH back AS (
     UPDATE tasks t SET attempt_id = NULL, holder = NULL WHERE t.id = ANY (${LOCKED("t.status = 'pending'")})
     RETURNING ${READINESS("t")}
   ), listed AS (
     ${insertInto("ready_queue", "back")}
   )
   ${deleteFrom("in_flight", "back")} RETURNING q.id`,
)

/** Rows that they had woken are due again. */
const LET_SLEEP = statement(
  "holders_let_go",
  `WITH back AS (
     UPDATE tasks SET holder = NULL, resume_at = COALESCE(:now::timestamptz, now()) WHERE id = ANY (
       ${LOCKED("t.status = 'running' AND t.waiting_on IS NOT NULL")})
     RETURNING run_seq, id
   )
   ${deleteFrom("in_flight", "back")} RETURNING q.id`,
)

const TIDY = statement(
  "holders_tidy",
  `DELETE FROM in_flight x WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = x.id AND t.holder IS NOT NULL OFFSET 0)`,
)

const LEFT_BEHIND = statement(
  "holders_left_behind",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", t.run_seq AS "runSeq", r.id AS "runId", r.version_id AS "versionId", t.node,
     t.path, t.kind, t.attempt, t.failures, t.losses, t.started_at AS "startedAt", t.external_id AS "externalId",
     CASE WHEN s.task_id IS NULL THEN r.cancelling ELSE 'cancel' END AS cancelling
   FROM ${IN_FLIGHT_ROWS()} LEFT JOIN runs r ON r.seq = t.run_seq LEFT JOIN stop_requests s ON s.task_id = t.id
   WHERE ${OF_DEAD} AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL ORDER BY t.id LIMIT :limit`,
)

/** `released`: gate claims that others may take now. */
export const reapHolders = async (
  tx: SqlRunner,
  now: string | null,
  { limit, workers }: { limit: number; workers: boolean },
): Promise<{ left: LiveAttempt[]; released: number }> => {
  await tx.run(BURY_LATE, { now, workers })
  const released = [...(await tx.run(RELEASE_GATES)), ...(await tx.run(LET_SLEEP, { now }))]
  const found = await tx.run<LiveTask>(LEFT_BEHIND, { limit })
  const jobOf = await jobsOfOrphans(
    tx,
    found.filter(({ runSeq }) => isJobRow(runSeq)).map(({ row }) => row),
  )
  const left = found.map((live): LiveAttempt => {
    if (!isJobRow(live.runSeq)) return live
    const { row, attemptId, attempt, startedAt, externalId, cancelling } = live
    return { kind: "job", row, attemptId, attempt, startedAt, externalId, cancelling, job: jobOf(row) }
  })
  await tx.run(TIDY)
  await tx.run(REMOVE_IDLE)
  return { left, released: released.length }
}
