// Taking ready rows, for the gate or for work. Order: priority, workflows in turn, run age, row. The workflows of the highest
// priority are found by skipping through the index, so one with 100,000 ready rows costs as much as one with ten.
// Rows that others have locked are passed over; rows under limits or of a paused run go through core `admit`.

import { admit } from "../../../core/rules/admit.ts"
import type { HolderId } from "../../../core/model/ids.ts"
import { wildcardRange, isExactLane, LANE_RANGES, type LaneRange, queueOfLane } from "../../../core/routing/lanes.ts"
import { MAX_CANDIDATES, MAX_GROUPS } from "../../shared/bounds.ts"
import { anyTextParam, arrayParam } from "../connection/array-params.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import { tryLockLimits } from "./limits.ts"
import { ENTRY, ADD_IN_FLIGHT, ENQUEUE, READINESS, READY, DEQUEUE } from "./ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"
import { CLAIMED, isFree, MS, NEW_ID, type ClaimedRow } from "./claimed-row.ts"

/** Where a statement notes how many rows it took, for the claim behind it. */
export const TAKEN = "ork.taken"

export const PRIORITY = (lane: string, direction: "ASC" | "DESC"): string =>
  `(SELECT q.priority FROM ready_queue q WHERE q.lane = ${lane} ORDER BY q.priority ${direction} LIMIT 1)`

const WORKFLOW = (lane: string, after: string): string =>
  `SELECT q.workflow_id FROM ready_queue q WHERE q.lane = ${lane} AND q.priority = (SELECT priority FROM top) ${after}
   ORDER BY q.lane, q.priority DESC, q.workflow_id LIMIT 1`

/** Who claims, if it lives; `free`: no queue of these lanes has settings. */
export const ME = (free: string, holder = "$5"): string =>
  `me AS MATERIALIZED (SELECT h.name, ${free} AS free FROM holders h WHERE h.id = ${holder}::uuid AND NOT h.dead)`

export const LIVE_HOLDER = "EXISTS (SELECT 1 FROM holders h WHERE h.id = $5::uuid AND NOT h.dead)"

/**
 * What is read of listed rows while they are locked: enough to say whether they may go. Follow with conditions on the list, as `q`,
 * and CHOSEN. An entry whose row is not ready any more is `idle`.
 */
export const CHOICE = `SELECT q.lane, q.ctid AS entry, t.id, t.run_seq, t.workflow_id, t.priority, t.limits, t.kind, t.hook, t.children_created,
    t.children_pending, NOT (${READY("t")}) AS idle, q.xmin = pg_current_xact_id_if_assigned()::xid AS fresh
  FROM ready_queue q JOIN tasks t ON t.id = q.id WHERE`

export const CHOSEN = (limit: string): string =>
  `ORDER BY q.lane, q.priority DESC, q.workflow_id, q.run_seq, q.id LIMIT ${limit} FOR UPDATE OF t SKIP LOCKED`

const PAUSED = "COALESCE(r.paused AND r.status = 'running' AND r.cancelling IS NULL, false)"

/** Those of the rows `k` that wait for nothing, and the idle ones; `place` numbers them in their batch. */
export const PLACED = (place: string, { takeable, limits }: Rules): string => `
  SELECT k.id, k.entry, k.idle, k.fresh, ${limits} AS limits, r.id AS run_id, r.version_id, r.generation, r.cancelling, r.status AS run_status, r.error AS run_error,
    ${PAUSED} AS paused, ${NEW_ID(place, "$4")} AS new_id
  FROM ready k LEFT JOIN runs r ON r.seq = k.run_seq WHERE (${takeable} OR k.idle)`

/**
 * The short way, for when nobody has to take turns: the first rows by the index, if they are of one workflow and no other is
 * left out at their priority. Parameters as below.
 */
const SIMPLY = (rules: Rules, { before, lanes, free, limit }: Lanes): string => `
  WITH ${before} ${ME(free)}, ready AS MATERIALIZED (
    SELECT k.* FROM me CROSS JOIN ${lanes} CROSS JOIN LATERAL (
      ${CHOICE} q.lane = l.lane ${CHOSEN(limit)}
    ) k WHERE me.free AND $3::bigint IS NOT NULL
  ), rest AS MATERIALIZED (
    SELECT NOT (a.n = 0 OR a.alone AND NOT a.idle AND (a.n < ${limit} OR NOT EXISTS (
      SELECT 1 FROM ready_queue q WHERE q.lane = a.lane AND q.priority = a.priority AND q.workflow_id > a.workflow_id
    ))) AS rest
    FROM (
      SELECT count(*) AS n, min(lane) AS lane, min(priority) AS priority, min(workflow_id) AS workflow_id,
        min(workflow_id) = max(workflow_id) AND min(lane) = max(lane) AS alone, bool_or(idle) AS idle
      FROM ready
    ) a
  ), chosen AS MATERIALIZED (${PLACED("row_number() OVER ()", rules)} AND NOT (SELECT rest FROM rest))`

/**
 * $1 lanes, $2 how many, $3 the workflow served last, $4 attempt ids, $5 holder. Takes from the highest priority only, the same
 * share from each of its workflows; `rest` says whether more is ready than was looked at.
 */
const FAIRLY = (rules: Rules, { free, limit }: Lanes): string => `
  WITH RECURSIVE ${ME(free)}, lanes AS MATERIALIZED (
    SELECT l.lane, ${PRIORITY("l.lane", "DESC")} AS highest, ${PRIORITY("l.lane", "ASC")} AS lowest
    FROM me CROSS JOIN unnest($1::text[]) AS l (lane) WHERE me.free
  ), top AS MATERIALIZED (
    SELECT max(highest) AS priority, min(lowest) < max(highest) AS lower FROM lanes
  ), groups AS (
    SELECT l.lane, w.workflow_id FROM lanes l CROSS JOIN LATERAL (${WORKFLOW("l.lane", "")}) w
    UNION ALL
    SELECT g.lane, w.workflow_id
    FROM groups g CROSS JOIN LATERAL (${WORKFLOW("g.lane", "AND q.workflow_id > g.workflow_id")}) w
  ), shares AS MATERIALIZED (
    SELECT g.lane, g.workflow_id, ((${limit} - 1) / count(*) OVER () + 1)::int AS share
    FROM (SELECT * FROM groups LIMIT ${MAX_GROUPS}) g
  ), ready AS MATERIALIZED (
    SELECT k.*, s.share, row_number() OVER (PARTITION BY k.workflow_id ORDER BY k.run_seq, k.id) AS turn
    FROM shares s CROSS JOIN LATERAL (
      ${CHOICE} q.lane = s.lane AND q.priority = (SELECT priority FROM top) AND q.workflow_id = s.workflow_id ${CHOSEN("s.share")}
    ) k
  ), rest AS MATERIALIZED (
    SELECT COALESCE((SELECT lower FROM top), false)
      OR EXISTS (SELECT 1 FROM ready GROUP BY workflow_id, share HAVING count(*) >= share) AS rest
  ), chosen AS MATERIALIZED (
    ${PLACED("row_number() OVER (ORDER BY k.turn, k.workflow_id <= $3::bigint, k.workflow_id)", rules)}
    ORDER BY k.turn, k.workflow_id <= $3::bigint, k.workflow_id LIMIT ${limit}
  )`

interface Lanes {
  before: string
  lanes: string
  /** No queue of these lanes has settings. */
  free: string
  /** How many. */
  limit: string
}

/** $8: an earlier statement of the transaction may have taken some of them. */
const STILL = `($2::int - CASE WHEN $8::bool THEN COALESCE(NULLIF(current_setting('${TAKEN}', true), ''), '0')::int ELSE 0 END)`

/** The gate's lanes are no queue's. */
const GATE_LANES: Lanes = { before: "", lanes: "unnest($1::text[]) AS l (lane)", free: "true", limit: "$2::int" }

/** $7 their queues. */
const NAMED: Lanes = {
  ...GATE_LANES,
  free: "NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = ANY ($7::text[]))",
  limit: STILL,
}

const NEXT_LANE = (after: string, to: string): string =>
  `SELECT q.lane FROM ready_queue q WHERE q.lane > ${after} AND q.lane < '${to}' ORDER BY q.lane LIMIT 1`

/** $1 and every lane of a kind that has ready rows: two of them say whether there is one alone. */
const EVERY = ({ from, to }: LaneRange): Lanes => ({
  before: `RECURSIVE ring AS (
    (${NEXT_LANE(`'${from}'`, to)}) UNION ALL SELECT n.lane FROM ring r CROSS JOIN LATERAL (${NEXT_LANE("r.lane", to)}) n
  ), every AS MATERIALIZED (
    SELECT lane FROM unnest($1::text[]) AS l (lane) UNION SELECT lane FROM (SELECT lane FROM ring LIMIT 2) l
  ),`,
  lanes: "every l",
  free: "NOT EXISTS (SELECT 1 FROM queues WHERE $7::text[] IS NOT NULL)",
  limit: STILL,
})

const DISPATCH = (
  name: string,
): string => `status = 'dispatched', attempt = t.attempt + 1, holder = $5::uuid, worker = (${name}),
  dispatched_at = COALESCE($6::timestamptz, now()), external_id = NULL,
  started_at = NULL, finished_at = NULL, outcome = NULL, error = NULL, exit_code = NULL, usage = NULL, progress = NULL, inner_run = NULL`

const FREE = "k.limits IS NULL AND NOT k.paused"

/**
 * Whose entry is gone by now is left alone: somebody has changed the row since the list was read. Of rows under limits or of paused
 * runs only the ids come back, for `lockedRows`. One row at least, for `rest`.
 */
export const TAKE = (set: string): string => `, unlisted AS (
    DELETE FROM ready_queue q WHERE q.ctid = ANY (ARRAY(SELECT k.entry FROM chosen k WHERE k.idle OR ${FREE})) RETURNING q.id
  ), taken AS (
    UPDATE tasks t SET attempt_id = k.new_id, ${set}
    FROM chosen k WHERE t.id = k.id AND NOT k.idle AND ${FREE} AND k.id = ANY (ARRAY(SELECT id FROM unlisted))
    RETURNING ${CLAIMED}
  ), held AS (
    ${ADD_IN_FLIGHT("taken")}
  )
  SELECT c.*, rest.rest, EXISTS (SELECT 1 FROM me WHERE NOT free) AS queued, (SELECT ${MS("COALESCE($6::timestamptz, now())")}) AS now,
    (SELECT array_agg(k.id) FROM chosen k WHERE NOT k.idle AND (k.limits IS NOT NULL OR k.paused)) AS bound
  FROM rest LEFT JOIN taken c ON true`

/** $1 rows that this transaction has locked, in order, $2 attempt ids. */
const BOUND = statement(
  "claim_bound",
  `WITH k AS MATERIALIZED (
     SELECT t.id, t.limits, r.id AS run_id, r.version_id, r.generation, r.cancelling, r.status AS run_status, r.error AS run_error,
       ${PAUSED} AS paused, ${NEW_ID("c.place", "$2")} AS new_id, NULL::bool AS fresh
     FROM unnest($1::bigint[]) WITH ORDINALITY AS c (id, place) JOIN tasks t ON t.id = c.id LEFT JOIN runs r ON r.seq = t.run_seq
   )
   SELECT ${CLAIMED} FROM k JOIN tasks t ON t.id = k.id`,
)

interface Rules {
  takeable: string
  limits: string
}

export const WORK: Rules = { takeable: "(r.cancelling IS NULL OR k.hook)", limits: "k.limits" }

/** In a run that is being cancelled, the gate takes containers whose instances have ended, and nothing else. It uses no slots. */
const GATES: Rules = {
  takeable: "(r.cancelling IS NULL OR k.hook OR k.children_created > 0 AND k.children_pending = 0)",
  limits: "NULL::bigint[]",
}

export const WORKED = DISPATCH("SELECT name FROM me")

const STATEMENTS = {
  claim: {
    simple: statement("claim_simple", SIMPLY(WORK, NAMED) + TAKE(WORKED)),
    fair: statement("claim_fair", FAIRLY(WORK, NAMED) + TAKE(WORKED)),
  },
  gate: {
    simple: statement("gate_simple", SIMPLY(GATES, GATE_LANES) + TAKE("holder = $5::uuid")),
    fair: statement("gate_fair", FAIRLY(GATES, GATE_LANES) + TAKE("holder = $5::uuid")),
  },
} as const

const CLAIM_EVERY = new Map(
  LANE_RANGES.map((range) => {
    return [range.name, statement(`claim_every_${range.name}`, SIMPLY(WORK, EVERY(range)) + TAKE(WORKED))]
  }),
)

/** $1 … $2 what goes, $3 … $4 what is parked, $7 … $8 slots used, $9 … $10 what has another look. */
const ADMITTED = statement(
  "claim_admitted",
  `WITH taken AS (
     UPDATE tasks t SET attempt_id = c.attempt_id, ${DISPATCH("SELECT name FROM holders WHERE id = $5::uuid")}
     FROM unnest($1::bigint[], $2::uuid[]) AS c (id, attempt_id) WHERE t.id = c.id RETURNING ${ENTRY("t")}
   ), parked AS (
     UPDATE tasks t SET parked = c.parked FROM unnest($3::bigint[], $4::bigint[]) AS c (id, parked) WHERE t.id = c.id
     RETURNING ${ENTRY("t")}
   ), unlisted AS (
     ${DEQUEUE("(SELECT * FROM taken UNION ALL SELECT * FROM parked)")}
   ), held AS (
     ${ADD_IN_FLIGHT("taken")}
   ), used AS (
     UPDATE limits l SET used = l.used + c.slots FROM unnest($7::bigint[], $8::int[]) AS c (id, slots) WHERE l.id = c.id
   ), unparked AS (
     UPDATE tasks t SET parked = NULL FROM unnest($9::bigint[], $10::int[]) AS c (id, rows) CROSS JOIN LATERAL (
       SELECT id FROM tasks WHERE parked = c.id ORDER BY priority DESC, run_seq, id LIMIT c.rows FOR NO KEY UPDATE SKIP LOCKED
     ) p WHERE t.id = p.id RETURNING ${READINESS("t")}
   )
   ${ENQUEUE("unparked")}`,
)

/**
 * `queued`: a queue of these lanes has settings; then nothing was taken. `now`: the instant of the transaction, in milliseconds.
 * `bound`: rows that core `admit` must judge.
 */
export type Answer = ClaimedRow & { rest: boolean; queued: boolean; now: number; bound: number[] | null }

export interface ClaimRequest {
  holder: HolderId
  lanes: readonly string[]
  limit: number
}

/** Claims of one kind; remembers whose turn it was. */
export class Claims {
  readonly #kind: "gate" | "claim"
  readonly #instants: StoreClock
  #served = 0
  /** The short way is tried first, and again after a claim that found one workflow alone. */
  #simple = true
  /** Settings of queues, or several queues to be served in turn, ask for the longer way (queue-claim.ts). */
  general = false

  constructor(kind: "gate" | "claim", instants: StoreClock) {
    this.#kind = kind
    this.#instants = instants
  }

  /** `shared`: what a statement before it took counts too (`TAKEN`). Sent at once; `finish` reads the answer. */
  send(tx: SqlRunner, wish: ClaimRequest, now: string | null, shared = false): Promise<Answer[]> {
    const limit = Math.min(wish.limit, MAX_CANDIDATES)
    const lanes = wish.lanes.filter(isExactLane)
    const values = [anyTextParam(lanes), limit, this.#served, this.#instants.newAttemptIds(), wish.holder, now]
    if (this.#kind === "gate") return tx.run(STATEMENTS.gate[this.#simple ? "simple" : "fair"], values)
    const queues = anyTextParam(lanes.flatMap((lane) => queueOfLane(lane) ?? []))
    const every = wildcardRange(wish.lanes)
    if (every !== null) return tx.run(CLAIM_EVERY.get(every.name)!, [...values, queues, shared])
    return tx.run(STATEMENTS.claim[this.#simple ? "simple" : "fair"], [...values, queues, shared])
  }

  /**
   * What of the answer may go. Asked for again, for lower priorities and in place of rows that were parked, until there are
   * enough, none are left, or this turn has looked at its share.
   */
  async finish(
    tx: SqlRunner,
    first: readonly Answer[],
    wish: ClaimRequest,
    now: string | null,
  ): Promise<{ taken: ClaimedRow[]; more: boolean; unparked: boolean }> {
    const taken: ClaimedRow[] = []
    let looked = 0
    let unparked = false
    for (let answer = first; ; answer = await this.send(tx, { ...wish, limit: wish.limit - taken.length }, now)) {
      const rows = await lockedRows(tx, answer, this.#instants)
      const every = wildcardRange(wish.lanes) !== null
      if (answer[0]!.queued || (every && answer[0]!.rest && rows.length === 0)) {
        this.general = true
        return { taken, more: false, unparked }
      }
      if (this.#simple && answer[0]!.rest) {
        this.#simple = false
        continue
      }
      if (rows.length > 0) this.#simple = !answer[0]!.rest && rows.every((row) => row.workflow_id === rows[0]!.workflow_id)
      looked += rows.length
      const admitted = await admitRows(tx, rows, wish.holder, now)
      taken.push(...admitted.taken)
      unparked ||= admitted.unparked
      if (admitted.taken.length > 0) this.#served = admitted.taken[admitted.taken.length - 1]!.workflow_id
      if (taken.length >= wish.limit) return { taken, more: false, unparked }
      if (rows.length === 0) return { taken, more: answer[0]!.rest, unparked }
      if (!answer[0]!.rest && rows.every(isFree)) return { taken, more: false, unparked }
      if (admitted.left || looked >= MAX_CANDIDATES) return { taken, more: true, unparked }
    }
  }
}

/**
 * `left`: rows under a limit that another transaction holds just now; its end lets them be looked at again. `unparked`: some were listed
 * for their place.
 */
export const admitRows = async (
  tx: SqlRunner,
  rows: readonly ClaimedRow[],
  holder: HolderId,
  now: string | null,
): Promise<{ taken: ClaimedRow[]; left: boolean; unparked: boolean }> => {
  const bound = rows.filter((row) => !isFree(row))
  if (bound.length === 0) return { taken: [...rows], left: false, unparked: false }
  const limits = await tryLockLimits(
    tx,
    bound.flatMap((row) => row.limits ?? []),
  )
  const candidates = bound.map((row) => ({ row: row.id, limits: row.limits ?? [], paused: row.paused }))
  const { claim, park, used, unpark } = admit(candidates, limits)
  const ids = new Map(bound.map((row) => [row.id, row.new_id]))
  await tx.run(ADMITTED, [
    arrayParam(claim),
    arrayParam(claim.map((row) => ids.get(row)!)),
    arrayParam(park.map(({ row }) => row)),
    arrayParam(park.map(({ limit }) => limit)),
    holder,
    now,
    arrayParam([...used.keys()]),
    arrayParam([...used.values()]),
    arrayParam([...unpark.keys()]),
    arrayParam([...unpark.values()]),
  ])
  const admitted = new Set(claim)
  const taken = rows.flatMap((row) =>
    isFree(row) ? [row] : admitted.has(row.id) ? [{ ...row, attempt: row.attempt + 1 }] : [],
  )
  return { taken, left: claim.length + park.length < bound.length, unparked: unpark.size > 0 }
}

/** The rows of an answer, in order: the ids of one batch differ in their places only. */
export const lockedRows = async (tx: SqlRunner, answer: readonly Answer[], instants: StoreClock): Promise<ClaimedRow[]> => {
  const { bound } = answer[0]!
  const taken = inOrder(answer.filter((row) => row.id !== null))
  if (bound === null) return taken
  return [...taken, ...inOrder(await tx.run<ClaimedRow>(BOUND, [arrayParam(bound), instants.newAttemptIds()]))]
}

const inOrder = (rows: readonly ClaimedRow[]): ClaimedRow[] => rows.toSorted((a, b) => (a.new_id < b.new_id ? -1 : 1))
