// Lease holders: registration, leases, and the attempts of dead ones. A worker dies with its lease. A server or an `ork run` is
// dead when its process is gone (`isDead`); its lease is informational.

import type { HolderId, RunId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
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
import { jobOfOrphan } from "../claim/job-claim.ts"
import type { StoreContext, Tx } from "../tx.ts"

const REGISTER = `
INSERT INTO holders (id, kind, name, process, run_id, lease_ms, lease_until, capabilities, token_hash, key_id, key_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, name = excluded.name, process = excluded.process, run_id = excluded.run_id,
  lease_ms = excluded.lease_ms, lease_until = excluded.lease_until, capabilities = excluded.capabilities, token_hash = excluded.token_hash,
  key_id = excluded.key_id, key_hash = excluded.key_hash`

export const registerHolder = (tx: Tx, holder: NewLeaseHolder): void => {
  const { id, kind, name, process, runId, leaseMs, capabilities = null, tokenHash = null, key = null } = holder
  const capabilitiesText = capabilities === null ? null : JSON.stringify(capabilities)
  const columns = [id, kind, name, process, runId, leaseMs, tx.iso(tx.now + leaseMs), capabilitiesText, tokenHash]
  tx.db.run(REGISTER, ...columns, key?.id ?? null, key?.hash ?? null)
}

const RENEW = "UPDATE holders SET lease_ms = ?, lease_until = ? WHERE id = ? AND dead = 0"

export const renewLease = (tx: Tx, id: HolderId, leaseMs: number): boolean =>
  tx.db.run(RENEW, leaseMs, tx.iso(tx.now + leaseMs), id) === 1

const EXTEND = `
UPDATE holders SET lease_until = strftime('%Y-%m-%dT%H:%M:%fZ', julianday(?) + lease_ms / 86400000.0)
WHERE kind = 'worker' AND dead = 0 AND lease_until < ?`

export const extendWorkerLeases = (tx: Tx): void => void tx.db.run(EXTEND, tx.at, tx.at)

/** Whether the secret that a worker `h` registered with is valid at ?1. */
const KEY_IS_VALID = `(h.key_id IS NULL OR EXISTS (
  SELECT 1 FROM api_keys k WHERE k.id = h.key_id AND (k.expires_at IS NULL OR k.expires_at > ?1)
    AND (h.key_hash IS NULL OR k.hash = h.key_hash OR k.previous_hash = h.key_hash AND k.previous_until > ?1)))`

const TOKEN = `SELECT h.token_hash FROM holders h WHERE h.id = ?2 AND h.kind = 'worker' AND h.dead = 0 AND ${KEY_IS_VALID}`

export const workerToken = (context: StoreContext, id: HolderId): string | null =>
  context.db.get<[string | null]>(TOKEN, iso(context.clock.now()), id)?.[0] ?? null

const EVICT_OF_INVALID_KEYS = `UPDATE holders AS h SET dead = 1 WHERE h.kind = 'worker' AND h.dead = 0 AND NOT ${KEY_IS_VALID}`

const MARK_DEAD = "UPDATE holders SET dead = 1 WHERE id = ?"

const REMOVE_IDLE = `
DELETE FROM holders WHERE dead = 1 AND NOT EXISTS (
  SELECT 1 FROM tasks INDEXED BY tasks_in_flight WHERE tasks.holder IS NOT NULL AND tasks.holder = holders.seq)`

/** Deregisters a holder. The next `reapHolders` reports its attempts in flight. */
export const deregisterHolder = (tx: Tx, id: HolderId): void => {
  tx.db.run(MARK_DEAD, id)
  tx.db.run(REMOVE_IDLE)
}

const LIST = `
SELECT id, kind, name, process, run_id AS "runId", lease_ms AS "leaseMs", lease_until AS "leaseUntil", dead, capabilities,
  coalesce(a.in_flight, 0) AS "inFlight"
FROM holders LEFT JOIN (
  SELECT holder, count(*) AS in_flight FROM tasks INDEXED BY tasks_in_flight WHERE holder IS NOT NULL AND status <> 'pending' AND waiting_on IS NULL
  GROUP BY holder
) a ON a.holder = holders.seq ORDER BY seq`

type Columns = Omit<LeaseHolderRow, "dead" | "capabilities"> & { dead: number; capabilities: string | null }

export const listHolders = (context: StoreContext): LeaseHolderRow[] =>
  context.db.list<Columns>(LIST).map((columns) => ({
    ...columns,
    dead: columns.dead === 1,
    capabilities: columns.capabilities === null ? null : (JSON.parse(columns.capabilities) as WorkerCapabilities),
  }))

const STOP = "iif(EXISTS (SELECT 1 FROM stop_requests s WHERE s.task_id = t.id), 'cancel', r.cancelling)"

const IN_FLIGHT = `
SELECT t.id AS "row", t.attempt_id AS "attemptId", ${STOP} AS stop, iif(t.waiting_on IS NULL, 0, t.resumes) AS resumes
FROM tasks t INDEXED BY tasks_in_flight
JOIN holders h ON h.seq = t.holder LEFT JOIN runs r ON r.seq = t.run_seq
WHERE t.holder IS NOT NULL AND h.id = ? ORDER BY t.id`

export const listInFlight = (context: StoreContext, id: HolderId): InFlightAttempt[] =>
  context.db.list<InFlightAttempt>(IN_FLIGHT, id)

const OF_DEAD = `
FROM tasks t INDEXED BY tasks_in_flight JOIN holders h ON h.seq = t.holder LEFT JOIN runs r ON r.seq = t.run_seq
WHERE t.holder IS NOT NULL AND h.dead = 1`

const RELEASE_GATES = `
UPDATE tasks SET attempt_id = NULL, holder = NULL WHERE id IN (SELECT t.id ${OF_DEAD} AND t.status = 'pending')`

/** Rows that the holder had resumed are due again. */
const RELEASE_RESUMED = `
UPDATE tasks SET holder = NULL, resume_at = ? WHERE id IN (SELECT t.id ${OF_DEAD} AND t.status = 'running' AND t.waiting_on IS NOT NULL)`

const ORPHANED = `
SELECT t.id AS "row", t.attempt_id AS "attemptId", t.run_seq AS "runSeq", r.id AS "runId", r.version_id AS "versionId", t.node, t.path,
  t.kind, t.attempt, t.failures, t.losses, t.started_at AS "startedAt", t.external_id AS "externalId", ${STOP} AS cancelling
${OF_DEAD} AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL ORDER BY t.id LIMIT ? + 0`

const ABANDONED = `
SELECT root.id, root.finished_at IS NOT NULL FROM (
  SELECT coalesce(root_run_id, id) AS id, 1 AS cancelling FROM runs INDEXED BY runs_cancelling WHERE cancelling IS NOT NULL AND private = 1
  UNION SELECT coalesce(root_run_id, id), 0 FROM runs INDEXED BY runs_private_hooks WHERE private = 1 AND hooks_pending > 0
) r JOIN runs root ON root.id = r.id
WHERE (r.cancelling OR root.finished_at IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.run_id = root.id AND h.dead = 0)
GROUP BY root.id ORDER BY root.seq LIMIT ? + 0`

export const listAbandonedRuns = (context: StoreContext, limit: number): AbandonedRun[] =>
  context.db.all<[RunId, number]>(ABANDONED, limit).map(([runId, closed]) => ({ runId, closed: closed === 1 }))

/** Marks dead holders, releases their gate claims and returns their attempts in flight, at most `limit`. */
export const reapHolders = (
  tx: Tx,
  { limit, workers }: { limit: number; workers: boolean },
  isDead: (holder: LeaseHolderRow) => boolean,
): OrphanedAttempt[] => {
  const hasDied = (holder: LeaseHolderRow): boolean =>
    holder.kind === "worker" ? workers && holder.leaseUntil < tx.at : isDead(holder)
  if (workers) tx.db.run(EVICT_OF_INVALID_KEYS, tx.at)
  for (const holder of listHolders(tx)) if (!holder.dead && hasDied(holder)) tx.db.run(MARK_DEAD, holder.id)
  if (tx.db.run(RELEASE_GATES) + tx.db.run(RELEASE_RESUMED, tx.at) > 0) tx.wake.noteWorkLeft()
  const orphaned = tx.db.list<OrphanedTask>(ORPHANED, limit)
  tx.db.run(REMOVE_IDLE)
  return orphaned.map((task): OrphanedAttempt => {
    if (!isJobRow(task.runSeq)) return task
    const { row, attemptId, attempt, failures, losses, startedAt, externalId, cancelling } = task
    const job = jobOfOrphan(tx, row)
    return { kind: "job", row, attemptId, attempt, failures, losses, startedAt, externalId, cancelling, job }
  })
}
