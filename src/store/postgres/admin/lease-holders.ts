// Lease holders: registration, leases, and the attempts of dead ones. Every holder dies with its lease, by the database's clock.

import type { HolderId } from "../../../core/model/ids.ts"
import type { WorkerCapabilities } from "../../../core/routing/capabilities.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type {
  AbandonedRun,
  InFlightAttempt,
  LeaseHolderRow,
  NewLeaseHolder,
  OrphanedAttempt,
  OrphanedTask,
} from "../../contract/store.ts"
import { jobsOfOrphans } from "../claim/job-claim.ts"
import { IN_FLIGHT_ROWS, deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

const UNTIL = `${NOW} + :leaseMs::int * interval '1 millisecond'`

const REGISTER = statement(
  "holder_register",
  `INSERT INTO holders (id, kind, name, process, run_id, lease_ms, lease_until, capabilities, token_hash, key_id, key_hash)
   VALUES (:id::uuid, :kind, :name, :process, :runId::uuid, :leaseMs::int, ${UNTIL}, :capabilities, :tokenHash, :keyId, :keyHash)
   ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, process = excluded.process,
     run_id = excluded.run_id, lease_ms = excluded.lease_ms, lease_until = excluded.lease_until, capabilities = excluded.capabilities,
     token_hash = excluded.token_hash, key_id = excluded.key_id, key_hash = excluded.key_hash`,
)

export const registerHolder = async (tx: SqlRunner, holder: NewLeaseHolder): Promise<void> => {
  const { id, kind, name, process, runId, leaseMs, capabilities = null, tokenHash = null, key = null } = holder
  await tx.run(REGISTER, {
    leaseMs,
    id,
    kind,
    name,
    process,
    runId,
    capabilities: capabilities === null ? null : JSON.stringify(capabilities),
    tokenHash,
    keyId: key?.id ?? null,
    keyHash: key?.hash ?? null,
  })
}

const RENEW = statement(
  "holder_renew",
  `UPDATE holders SET lease_ms = :leaseMs::int, lease_until = ${UNTIL} WHERE id = :id::uuid AND NOT dead RETURNING id`,
)

export const renewLease = async (tx: SqlRunner, id: HolderId, leaseMs: number): Promise<boolean> =>
  (await tx.run(RENEW, { leaseMs, id })).length === 1

/** Applies only while no other server is alive: that one would have renewed the leases. */
const EXTEND = statement(
  "holders_extend_workers",
  `UPDATE holders worker SET lease_until = ${NOW} + worker.lease_ms * interval '1 millisecond'
   WHERE worker.kind = 'worker' AND NOT worker.dead AND worker.lease_until < ${NOW} AND NOT EXISTS (
     SELECT 1 FROM holders server WHERE server.kind = 'server' AND NOT server.dead AND server.lease_until >= ${NOW})`,
)

export const extendWorkerLeases = async (tx: SqlRunner): Promise<void> => {
  await tx.run(EXTEND)
}

/** Whether the secret that a worker `h` registered with is valid. */
const KEY_IS_VALID = `(h.key_id IS NULL OR EXISTS (
  SELECT 1 FROM api_keys k WHERE k.id = h.key_id AND (k.expires_at IS NULL OR k.expires_at > ${NOW})
    AND (h.key_hash IS NULL OR k.hash = h.key_hash OR k.previous_hash = h.key_hash AND k.previous_until > ${NOW})))`

const TOKEN = statement(
  "worker_token",
  `SELECT h.token_hash AS "tokenHash" FROM holders h
   WHERE h.id = :id::uuid AND h.kind = 'worker' AND NOT h.dead AND ${KEY_IS_VALID}`,
)

export const workerToken = async (connection: SqlRunner, id: HolderId): Promise<string | null> =>
  (await connection.run<{ tokenHash: string | null }>(TOKEN, { id }))[0]?.tokenHash ?? null

const MARK_DEAD = statement("holder_mark_dead", "UPDATE holders SET dead = true WHERE id = :id::uuid")

const REMOVE_IDLE = statement(
  "holders_remove_idle",
  `DELETE FROM holders h WHERE h.dead
   AND NOT EXISTS (SELECT 1 FROM ${IN_FLIGHT_ROWS()} WHERE t.holder = h.id)`,
)

/** Deregisters a holder. The next `reapHolders` reports its attempts in flight. */
export const deregisterHolder = async (tx: SqlRunner, id: HolderId): Promise<void> => {
  await tx.run(MARK_DEAD, { id })
  await tx.run(REMOVE_IDLE)
}

const LIST = statement(
  "holders_list",
  `SELECT h.id, h.kind, h.name, h.process, h.run_id AS "runId", h.lease_ms AS "leaseMs", h.lease_until AS "leaseUntil", h.dead,
     h.capabilities, COALESCE(a.in_flight, 0)::int AS "inFlight"
   FROM holders h LEFT JOIN (
     SELECT t.holder, count(*) AS in_flight FROM ${IN_FLIGHT_ROWS()} WHERE t.status <> 'pending' AND t.waiting_on IS NULL GROUP BY t.holder
   ) a ON a.holder = h.id ORDER BY h.seq`,
)

export const listHolders = async (connection: SqlRunner): Promise<LeaseHolderRow[]> => {
  const rows = await connection.run<Omit<LeaseHolderRow, "capabilities"> & { capabilities: string | null }>(LIST)
  const parse = (text: string | null): WorkerCapabilities | null =>
    text === null ? null : (JSON.parse(text) as WorkerCapabilities)
  return rows.map((row) => ({ ...row, capabilities: parse(row.capabilities) }))
}

const IN_FLIGHT = statement(
  "holder_in_flight",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", CASE WHEN s.task_id IS NULL THEN r.cancelling ELSE 'cancel' END AS stop,
     CASE WHEN t.waiting_on IS NULL THEN 0 ELSE t.resumes END AS resumes
   FROM ${IN_FLIGHT_ROWS()} LEFT JOIN runs r ON r.seq = t.run_seq LEFT JOIN stop_requests s ON s.task_id = t.id
   WHERE t.holder = :id::uuid ORDER BY t.id`,
)

export const listInFlight = (connection: SqlRunner, id: HolderId): Promise<InFlightAttempt[]> =>
  connection.run(IN_FLIGHT, { id })

const MARK_EXPIRED_DEAD = statement(
  "holders_mark_expired_dead",
  `UPDATE holders h SET dead = true
   WHERE NOT h.dead AND (:workers::boolean OR h.kind <> 'worker') AND (h.lease_until < ${NOW} OR NOT ${KEY_IS_VALID})`,
)

/** A holder without a row is dead too: it claimed while it was being deregistered. */
const OF_DEAD = `t.holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.id = t.holder AND NOT h.dead)`

/** Finds the rows first, then locks them: `FOR UPDATE` on the join would lock every row in flight. */
const LOCKED = (condition: string): string => `ARRAY(
       SELECT t.id FROM tasks t WHERE t.id = ANY (ARRAY(SELECT t.id FROM ${IN_FLIGHT_ROWS()} WHERE ${OF_DEAD} AND ${condition}))
         AND ${OF_DEAD} AND ${condition} FOR UPDATE SKIP LOCKED)`

const RELEASE_GATES = statement(
  "holders_release_gates",
  `WITH released AS (
     UPDATE tasks t SET attempt_id = NULL, holder = NULL WHERE t.id = ANY (${LOCKED("t.status = 'pending'")})
     RETURNING ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "released")}
   )
   ${deleteFrom("in_flight", "released")} RETURNING q.id`,
)

/** Rows that a dead holder had resumed are due again. */
const RELEASE_RESUMED = statement(
  "holders_release_resumed",
  `WITH released AS (
     UPDATE tasks SET holder = NULL, resume_at = ${NOW} WHERE id = ANY (
       ${LOCKED("t.status = 'running' AND t.waiting_on IS NOT NULL")})
     RETURNING run_seq, id
   )
   ${deleteFrom("in_flight", "released")} RETURNING q.id`,
)

const DELETE_STALE_IN_FLIGHT = statement(
  "holders_delete_stale_in_flight",
  `DELETE FROM in_flight i WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = i.id AND t.holder IS NOT NULL OFFSET 0)`,
)

const ORPHANED = statement(
  "holders_orphaned",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", t.run_seq AS "runSeq", r.id AS "runId", r.version_id AS "versionId", t.node,
     t.path, t.kind, t.attempt, t.failures, t.losses, t.started_at AS "startedAt", t.external_id AS "externalId",
     CASE WHEN s.task_id IS NULL THEN r.cancelling ELSE 'cancel' END AS cancelling
   FROM ${IN_FLIGHT_ROWS()} LEFT JOIN runs r ON r.seq = t.run_seq LEFT JOIN stop_requests s ON s.task_id = t.id
   WHERE ${OF_DEAD} AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL ORDER BY t.id LIMIT :limit`,
)

const ABANDONED = statement(
  "runs_abandoned",
  `SELECT root.id AS "runId", root.finished_at IS NOT NULL AS closed FROM (
     SELECT COALESCE(root_run_id, id) AS id, true AS cancelling FROM runs
     WHERE cancelling IS NOT NULL AND status IN ('pending', 'running') AND private
     UNION ALL SELECT COALESCE(root_run_id, id), false FROM runs WHERE private AND hooks_pending > 0
   ) r JOIN runs root ON root.id = r.id
   WHERE (r.cancelling OR root.finished_at IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.run_id = root.id AND NOT h.dead)
   GROUP BY root.seq, root.id, root.finished_at ORDER BY root.seq LIMIT :limit`,
)

export const listAbandonedRuns = (connection: SqlRunner, limit: number): Promise<AbandonedRun[]> =>
  connection.run(ABANDONED, { limit })

/** Marks dead holders, releases their gate claims and returns their attempts in flight, at most `limit`. */
export const reapHolders = async (
  tx: SqlRunner,
  { limit, workers }: { limit: number; workers: boolean },
): Promise<OrphanedAttempt[]> => {
  await tx.run(MARK_EXPIRED_DEAD, { workers })
  await tx.run(RELEASE_GATES)
  await tx.run(RELEASE_RESUMED)
  const orphaned = await tx.run<OrphanedTask>(ORPHANED, { limit })
  const jobRows = orphaned.filter(({ runSeq }) => isJobRow(runSeq)).map(({ row }) => row)
  const jobOf = await jobsOfOrphans(tx, jobRows)
  await tx.run(DELETE_STALE_IN_FLIGHT)
  await tx.run(REMOVE_IDLE)
  return orphaned.map((task): OrphanedAttempt => {
    if (!isJobRow(task.runSeq)) return task
    const { row, attemptId, attempt, failures, losses, startedAt, externalId, cancelling } = task
    const job = jobOf(row)
    return { kind: "job", row, attemptId, attempt, failures, losses, startedAt, externalId, cancelling, job }
  })
}
