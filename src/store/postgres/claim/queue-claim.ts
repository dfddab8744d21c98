// Claims from queues with settings, and from every queue in turn. Lanes that are named are one group: the highest priority among
// them first. For "every queue" each lane with ready rows is a group of its own, and the groups take turns. A queue's pause,
// concurrency and rate hold its lanes back as a whole: they are just not read further.

import { wildcardFunctions, wildcardRange } from "../../../core/routing/lanes.ts"
import { MAX_CANDIDATES, MAX_GROUPS } from "../../shared/bounds.ts"
import { anyTextParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import {
  admitRows,
  type Answer,
  CHOICE,
  CHOSEN,
  ME,
  lockedRows,
  PLACED,
  PRIORITY,
  TAKE,
  type ClaimRequest,
  WORK,
  WORKED,
} from "./claim.ts"
import { isFree, type ClaimedRow } from "./claimed-row.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import { type Lane, QueueBudget, readLanes } from "./queue-budget.ts"
import { announceTaskWrites } from "./queue-limits.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const WORKFLOW = (group: string, after: string): string =>
  `SELECT q.workflow_id FROM ready_queue q WHERE q.lane = ${group}.lane AND q.priority = ${group}.top ${after}
   ORDER BY q.lane, q.priority DESC, q.workflow_id LIMIT 1`

/**
 * As `FAIRLY` in claim.ts, for each group of lanes ($7) with a priority of its own; of a queue ($8) as many as it has room for
 * ($9, NULL: any number).
 */
const IN_TURN = `
  WITH RECURSIVE ${ME("true")}, lanes AS MATERIALIZED (
    SELECT l.*, ${PRIORITY("l.lane", "DESC")} AS highest, ${PRIORITY("l.lane", "ASC")} AS lowest
    FROM me CROSS JOIN unnest($1::text[], $7::int[], $8::text[], $9::int[]) AS l (lane, place, queue, room)
  ), tops AS MATERIALIZED (
    SELECT l.lane, l.place, l.queue, l.room, max(highest) OVER (PARTITION BY place) AS top,
      min(lowest) OVER (PARTITION BY place) AS bottom
    FROM lanes l
  ), groups AS (
    SELECT l.lane, l.place, l.queue, l.room, l.top, w.workflow_id FROM tops l CROSS JOIN LATERAL (${WORKFLOW("l", "")}) w
    UNION ALL
    SELECT g.lane, g.place, g.queue, g.room, g.top, w.workflow_id
    FROM groups g CROSS JOIN LATERAL (${WORKFLOW("g", "AND q.workflow_id > g.workflow_id")}) w
  ), shares AS MATERIALIZED (
    SELECT g.*, (($2::int - 1) / count(*) OVER () + 1)::int AS share FROM (SELECT * FROM groups LIMIT ${MAX_GROUPS}) g
  ), found AS MATERIALIZED (
    SELECT k.*, s.place, s.queue, s.room, s.share,
      row_number() OVER (PARTITION BY s.place, k.workflow_id ORDER BY k.run_seq, k.id) AS turn
    FROM shares s CROSS JOIN LATERAL (
      ${CHOICE} q.lane = s.lane AND q.priority = s.top AND q.workflow_id = s.workflow_id ${CHOSEN("s.share")}
    ) k
  ), placed AS (
    SELECT f.*, row_number() OVER (PARTITION BY place ORDER BY turn, workflow_id <= $3::bigint, workflow_id) AS nth FROM found f
  ), numbered AS (
    SELECT p.*, row_number() OVER (PARTITION BY queue ORDER BY nth, place) AS of_queue FROM placed p
  ), ready AS MATERIALIZED (
    SELECT * FROM numbered WHERE room IS NULL OR of_queue <= room
  ), rest AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM tops WHERE bottom < top)
      OR EXISTS (SELECT 1 FROM found GROUP BY lane, workflow_id, share HAVING count(*) >= share) AS rest
  ), chosen AS MATERIALIZED (
    ${PLACED("row_number() OVER (ORDER BY k.nth, k.place)", WORK)} ORDER BY k.nth, k.place LIMIT $2::int
  )`

const CLAIM = statement("claim_in_turn", IN_TURN + TAKE(WORKED))

const WAITING = statement(
  "queues_waiting",
  `SELECT l.lane FROM unnest($1::text[]) AS l (lane)
   WHERE EXISTS (SELECT 1 FROM ready_queue q WHERE q.lane = l.lane)`,
)

export interface QueuedClaim {
  taken: ClaimedRow[]
  more: boolean
  /** Milliseconds until the rate of a queue lets more of it start, or null. */
  waitMs: number | null
  /** Nothing here needed this way: the next claim may try the short one. */
  settled: boolean
}

export class QueueClaims {
  readonly #instants: StoreClock
  #served = 0
  #lane = ""

  constructor(instants: StoreClock) {
    this.#instants = instants
  }

  async take(tx: SqlRunner, wish: ClaimRequest, now: string | null): Promise<QueuedClaim> {
    if (wish.limit <= 0) return { taken: [], more: false, waitMs: null, settled: false }
    const entered = announceTaskWrites(tx)
    const lanes = await readLanes(tx, wish.lanes, this.#lane)
    await entered
    const book = await QueueBudget.open(tx, lanes, now)
    const { taken, more } = await this.#loop(tx, wish, lanes, book, now)
    await book.save(tx, now)
    const last = taken.at(-1)
    if (last !== undefined) [this.#served, this.#lane] = [last.workflow_id, last.lane]
    const workflows = new Set(taken.map((row) => row.workflow_id))
    const inTurn = wildcardRange(wish.lanes) !== null && (lanes.length > 1 || workflows.size > 1)
    return {
      taken,
      more: more || book.missed,
      waitMs: await waitOf(tx, book, lanes),
      settled: !book.any && !inTurn && wildcardFunctions(wish.lanes).length === 0,
    }
  }

  async #loop(
    tx: SqlRunner,
    wish: ClaimRequest,
    lanes: readonly Lane[],
    book: QueueBudget,
    now: string | null,
  ): Promise<{ taken: ClaimedRow[]; more: boolean }> {
    const taken: ClaimedRow[] = []
    for (let looked = 0; ;) {
      const open = lanes.filter((lane) => book.available(lane) > 0)
      if (open.length === 0) return { taken, more: false }
      const answer = await this.#ask(tx, { ...wish, limit: wish.limit - taken.length }, open, book, now)
      const rows = await lockedRows(tx, answer, this.#instants)
      looked += rows.length
      const admitted = await admitRows(tx, rows, wish.holder, now)
      taken.push(...admitted.taken)
      for (const row of admitted.taken) book.use(row.lane)
      const { rest } = answer[0]!
      if (taken.length >= wish.limit) return { taken, more: false }
      if (rows.length === 0) return { taken, more: rest }
      if (!rest && rows.every(isFree)) return { taken, more: false }
      if (admitted.left || looked >= MAX_CANDIDATES) return { taken, more: true }
    }
  }

  #ask(tx: SqlRunner, wish: ClaimRequest, lanes: readonly Lane[], book: QueueBudget, now: string | null): Promise<Answer[]> {
    const bounds = lanes.map((lane) => book.available(lane))
    return tx.run(CLAIM, [
      anyTextParam(lanes.map(({ lane }) => lane)),
      Math.min(wish.limit, MAX_CANDIDATES),
      this.#served,
      this.#instants.newAttemptIds(),
      wish.holder,
      now,
      arrayParam(lanes.map(({ place }) => place)),
      textArrayParam(lanes.map(({ queue }) => queue)),
      arrayParam(bounds.map((room) => (room === Number.POSITIVE_INFINITY ? null : room))),
    ])
  }
}

/** When the first queue that is out of tokens, and has rows that wait, has one again. */
const waitOf = async (tx: SqlRunner, book: QueueBudget, lanes: readonly Lane[]): Promise<number | null> => {
  const spent = lanes.filter((lane) => book.waitMs(lane) !== null)
  if (spent.length === 0) return null
  const waiting = new Set(
    (await tx.run<{ lane: string }>(WAITING, [anyTextParam(spent.map(({ lane }) => lane))])).map(({ lane }) => lane),
  )
  const waits = spent.flatMap((lane) => (waiting.has(lane.lane) ? book.waitMs(lane)! : []))
  return waits.length === 0 ? null : Math.min(...waits)
}
