// Rows under limits, and rows of paused runs: a claim statement has locked them, core `admit` decides which are claimed, and which
// are parked until a slot is free or the run goes on.

import { admit } from "../../../core/rules/claims/admit.ts"
import { statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { type ClaimReply, DISPATCH, IS_PAUSED, CLAIMED_RUN_COLUMNS } from "./candidates.ts"
import { CLAIM_COLUMNS, type ClaimedRow, needsNoAdmission, ATTEMPT_ID } from "./claimed-row.ts"
import { runUnpark, tryLockLimits, UNPARK } from "./limits.ts"
import { deleteFrom, ENTRY, insertInto } from "./ready-queue.ts"

const READ_LIMITED = statement(
  "claim_read_limited",
  `WITH k AS MATERIALIZED (
     SELECT t.id, t.limits, ${CLAIMED_RUN_COLUMNS}, ${IS_PAUSED} AS paused, ${ATTEMPT_ID("c.number")} AS attempt_id, NULL::bool AS enqueued_here
     FROM unnest(:rows::bigint[]) WITH ORDINALITY AS c (id, number) JOIN tasks t ON t.id = c.id LEFT JOIN runs r ON r.seq = t.run_seq
   )
   SELECT ${CLAIM_COLUMNS} FROM k JOIN tasks t ON t.id = k.id`,
)

/**
 * Returns the rows of a reply in claim order (attempt ids of one batch differ in their number only), and those for core `admit` after
 * them.
 */
export const rowsOfReply = async (tx: Tx, reply: readonly ClaimReply[]): Promise<ClaimedRow[]> => {
  const { limited } = reply[0]!
  const claimed = inOrder(reply.filter((row) => row.id !== null))
  if (limited === null) return claimed
  const params = { rows: limited, attemptIdPrefix: tx.clock.newAttemptIdPrefix() }
  return [...claimed, ...inOrder(await tx.run<ClaimedRow>(READ_LIMITED, params))]
}

const inOrder = (rows: readonly ClaimedRow[]): ClaimedRow[] => rows.toSorted((a, b) => (a.attempt_id < b.attempt_id ? -1 : 1))

const CLAIM_LIMITED = statement(
  "claim_limited",
  `WITH RECURSIVE claimed AS (
     UPDATE tasks t SET attempt_id = c.attempt_id, ${DISPATCH("SELECT name FROM holders WHERE id = :holder::uuid")}
     FROM unnest(:claimed::bigint[], :attempts::uuid[]) AS c (id, attempt_id) WHERE t.id = c.id RETURNING ${ENTRY("t")}
   ), parked AS (
     UPDATE tasks t SET parked = c.parked FROM unnest(:parked::bigint[], :parkedUnder::bigint[]) AS c (id, parked) WHERE t.id = c.id
     RETURNING ${ENTRY("t")}
   ), dequeued AS (
     ${deleteFrom("ready_queue", "(SELECT * FROM claimed UNION ALL SELECT * FROM parked)")}
   ), now_in_flight AS (
     ${insertInto("in_flight", "claimed")}
   ), used AS (
     UPDATE limits l SET used = l.used + c.slots FROM unnest(:usedLimits::bigint[], :usedSlots::int[]) AS c (id, slots) WHERE l.id = c.id
   ), ${UNPARK("(SELECT * FROM unnest(:unparkLimits::bigint[], :unparkRows::int[]) AS c (id, rows))")}`,
)

export interface AdmitResult {
  claimed: ClaimedRow[]
  /** Rows remain whose limit another transaction has locked; they can be claimed after it ends. */
  hasLockedRows: boolean
  /** Parked rows were enqueued in place of others. */
  unparked: boolean
}

/** Claims or parks the rows that core `admit` must decide about; the others are claimed already. */
export const admitRows = async (tx: Tx, rows: readonly ClaimedRow[], holder: string): Promise<AdmitResult> => {
  const limited = rows.filter((row) => !needsNoAdmission(row))
  if (limited.length === 0) return { claimed: [...rows], hasLockedRows: false, unparked: false }
  const limits = await tryLockLimits(
    tx,
    limited.flatMap((row) => row.limits ?? []),
  )
  const candidates = limited.map((row) => ({ row: row.id, limits: row.limits ?? [], mustPark: row.paused }))
  const { claim, park, used, unpark } = admit(candidates, limits)
  const attempts = new Map(limited.map((row) => [row.id, row.attempt_id]))
  await runUnpark(tx, CLAIM_LIMITED, {
    holder,
    claimed: claim,
    attempts: claim.map((row) => attempts.get(row)!),
    parked: park.map(({ row }) => row),
    parkedUnder: park.map(({ limit }) => limit),
    usedLimits: [...used.keys()],
    usedSlots: [...used.values()],
    unparkLimits: [...unpark.keys()],
    unparkRows: [...unpark.values()],
  })
  const admitted = new Set(claim)
  const claimed = rows.flatMap((row) =>
    needsNoAdmission(row) ? [row] : admitted.has(row.id) ? [{ ...row, attempt: row.attempt + 1 }] : [],
  )
  return { claimed, hasLockedRows: claim.length + park.length < limited.length, unparked: unpark.size > 0 }
}
