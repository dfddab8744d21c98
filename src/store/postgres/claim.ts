// Taking ready rows, for the gate or for work. Order: priority, workflows in turn, run age, row. The groups (priority, workflow)
// of each lane are found by skipping through the index, so a workflow with 100,000 ready rows costs as much as one with ten.
// Rows that others have locked are passed over; rows under limits or of a paused run go through core `admit`.

import { admit } from "../../core/admit.ts"
import type { AttemptId, HolderId } from "../../core/ids.ts"
import type { RunStatus } from "../../core/status.ts"
import { MAX_CANDIDATES, MAX_GROUPS } from "../bounds.ts"
import type { CancelReason, RowKind } from "../store.ts"
import { anyText, plain } from "./arrays.ts"
import type { Instants } from "./instants.ts"
import { tryLockLimits } from "./limits.ts"
import { type Runner, type Statement, statement } from "./session.ts"

const READY = (t: string): string =>
  `${t}.status = 'pending' AND ${t}.attempt_id IS NULL AND ${t}.upstream_left = 0 AND ${t}.parked IS NULL
     AND ${t}.available_at IS NULL`

const GROUP = "SELECT t.lane, t.priority, t.workflow_id FROM tasks t"

/** $1 lanes, $2 how many, $3 the workflow served last, $4 how many more to look at, $5 attempt ids, $6 holder, $7 now. */
const LOCKED = (takeable: string, limits: string): string => `
  WITH RECURSIVE groups AS (
    SELECT g.* FROM unnest($1::text[]) AS l (lane) CROSS JOIN LATERAL (
      ${GROUP} WHERE ${READY("t")} AND t.lane = l.lane ORDER BY t.lane, t.priority DESC, t.workflow_id LIMIT 1
    ) g WHERE EXISTS (SELECT 1 FROM holders h WHERE h.id = $6::uuid AND NOT h.dead)
    UNION ALL
    SELECT n.* FROM groups g CROSS JOIN LATERAL (
      (${GROUP} WHERE ${READY("t")} AND t.lane = g.lane AND t.priority = g.priority AND t.workflow_id > g.workflow_id
       ORDER BY t.lane, t.priority DESC, t.workflow_id LIMIT 1)
      UNION ALL
      (${GROUP} WHERE ${READY("t")} AND t.lane = g.lane AND t.priority < g.priority
       ORDER BY t.lane, t.priority DESC, t.workflow_id LIMIT 1)
      LIMIT 1
    ) n
  ), candidates AS MATERIALIZED (
    SELECT x.id, row_number() OVER (ORDER BY x.priority DESC, x.turn, x.workflow_id <= $3::bigint, x.workflow_id) AS place
    FROM (
      SELECT c.id, g.priority, g.workflow_id,
        row_number() OVER (PARTITION BY g.priority, g.workflow_id ORDER BY c.run_seq, c.id) AS turn
      FROM (SELECT * FROM groups LIMIT ${MAX_GROUPS}) g CROSS JOIN LATERAL (
        SELECT t.id, t.run_seq FROM tasks t
        WHERE ${READY("t")} AND t.lane = g.lane AND t.priority = g.priority AND t.workflow_id = g.workflow_id
        ORDER BY t.lane, t.priority DESC, t.workflow_id, t.run_seq, t.id LIMIT $2::int + $4::int
      ) c
    ) x
    ORDER BY place LIMIT $2::int + $4::int
  ), locked AS MATERIALIZED (
    SELECT t.id, t.run_seq, t.node, t.path, t.kind, t.parent_id, t.attempt, t.failures, t.losses, t.priority, t.item, t.up_failed,
      t.up_unmet, t.up_waived, t.expanded, t.children_failed, ${limits} AS limits, t.workflow_id, r.version_id, r.cancelling,
      r.status AS run_status, r.error AS run_error, r.paused AND r.status = 'running' AS paused,
      (left($5, 32) || lpad(to_hex(c.place), 4, '0'))::uuid AS new_id,
      CASE WHEN t.parent_id IS NULL THEN t.children_total
        ELSE (SELECT p.children_total FROM tasks p WHERE p.id = t.parent_id) END AS count
    FROM candidates c JOIN tasks t ON t.id = c.id JOIN runs r ON r.seq = t.run_seq
    WHERE ${READY("t")} AND ${takeable}
    ORDER BY c.place LIMIT $2::int
    FOR UPDATE OF t SKIP LOCKED
  )`

const DISPATCH = `status = 'dispatched', attempt = t.attempt + 1, holder = $6::uuid,
  worker = (SELECT name FROM holders WHERE id = $6::uuid), dispatched_at = COALESCE($7::timestamptz, now()), external_id = NULL,
  started_at = NULL, finished_at = NULL, outcome = NULL, error = NULL, exit_code = NULL, usage = NULL`

const ALL = "SELECT k.*, n.candidates FROM (SELECT count(*)::int AS candidates FROM candidates) n LEFT JOIN locked k ON true"

const CLAIM = statement(
  "claim",
  `${LOCKED("(r.cancelling IS NULL OR t.hook)", "t.limits")}, taken AS (
     UPDATE tasks t SET attempt_id = k.new_id, ${DISPATCH}
     FROM locked k WHERE t.id = k.id AND k.limits IS NULL AND NOT k.paused
   ) ${ALL}`,
)

/** In a run that is being cancelled, the gate takes containers whose instances have ended, and nothing else. */
const GATE = statement(
  "gate",
  `${LOCKED("(r.cancelling IS NULL OR t.hook OR t.expanded = t.children_total)", "NULL::bigint[]")}, taken AS (
     UPDATE tasks t SET attempt_id = k.new_id, holder = $6::uuid FROM locked k WHERE t.id = k.id AND NOT k.paused
   ) ${ALL}`,
)

/** $1 … $2 what goes, $3 … $4 what is parked, $5 and $8 slots used, $9 … $10 what has another look. */
const ADMITTED = statement(
  "claim_admitted",
  `WITH taken AS (
     UPDATE tasks t SET attempt_id = c.attempt_id, ${DISPATCH}
     FROM unnest($1::bigint[], $2::uuid[]) AS c (id, attempt_id) WHERE t.id = c.id
   ), parked AS (
     UPDATE tasks t SET parked = c.parked FROM unnest($3::bigint[], $4::bigint[]) AS c (id, parked) WHERE t.id = c.id
   ), used AS (
     UPDATE limits l SET used = l.used + c.slots FROM unnest($5::bigint[], $8::int[]) AS c (id, slots) WHERE l.id = c.id
   )
   UPDATE tasks t SET parked = NULL FROM unnest($9::bigint[], $10::int[]) AS c (id, rows) CROSS JOIN LATERAL (
     SELECT id FROM tasks WHERE parked = c.id ORDER BY priority DESC, run_seq, id LIMIT c.rows FOR UPDATE SKIP LOCKED
   ) p WHERE t.id = p.id`,
)

export interface Taken {
  id: number
  run_seq: number
  node: number
  path: string
  kind: RowKind
  parent_id: number | null
  attempt: number
  failures: number
  losses: number
  priority: number
  item: string | null
  up_failed: number
  up_unmet: number
  up_waived: number
  expanded: number
  children_failed: number
  limits: number[] | null
  workflow_id: number
  version_id: number
  cancelling: CancelReason | null
  run_status: RunStatus
  run_error: string | null
  paused: boolean
  new_id: AttemptId
  count: number | null
}

export type Answer = Taken & { candidates: number }

export interface Wish {
  holder: HolderId
  lanes: readonly string[]
  limit: number
}

/** Claims of one kind: remembers whose turn it was, and whether others claim at the same time. */
export class Claims {
  readonly #statement: Statement
  readonly #instants: Instants
  #served = 0
  #slack = 0

  constructor(kind: "gate" | "claim", instants: Instants) {
    this.#statement = kind === "gate" ? GATE : CLAIM
    this.#instants = instants
  }

  /** Sent at once; `finish` reads the answer. */
  send(tx: Runner, wish: Wish, now: string | null): Promise<Answer[]> {
    const limit = Math.min(wish.limit, MAX_CANDIDATES)
    const slack = Math.min(this.#slack, MAX_CANDIDATES)
    const values = [anyText(wish.lanes), limit, this.#served, slack, this.#instants.attemptIds(), wish.holder]
    return tx.run(this.#statement, this.#statement === GATE ? values : [...values, now])
  }

  /**
   * What of the answer may go. Rows that were parked make room for others: asked for again until there are enough, none are
   * left, or this turn has looked at its share.
   */
  async finish(
    tx: Runner,
    first: readonly Answer[],
    wish: Wish,
    now: string | null,
  ): Promise<{ taken: Taken[]; more: boolean }> {
    const taken: Taken[] = []
    let looked = 0
    for (let answer = first; ; answer = await this.send(tx, { ...wish, limit: wish.limit - taken.length }, now)) {
      const rows = locked(answer)
      const { candidates } = answer[0]!
      looked += rows.length
      const admitted = await this.#admit(tx, rows, wish.holder, now)
      taken.push(...admitted.taken)
      const missed = candidates > rows.length && rows.length < wish.limit
      this.#slack = missed ? wish.limit + MAX_GROUPS : 0
      if (taken.length > 0) this.#served = taken[taken.length - 1]!.workflow_id
      if (taken.length >= wish.limit) return { taken, more: false }
      if (rows.length === 0 || rows.every(isPlain)) return { taken, more: missed }
      if (admitted.left || looked >= MAX_CANDIDATES) return { taken, more: true }
    }
  }

  /** `left`: rows under a limit that another transaction holds just now; its end lets them be looked at again. */
  async #admit(
    tx: Runner,
    rows: readonly Taken[],
    holder: HolderId,
    now: string | null,
  ): Promise<{ taken: Taken[]; left: boolean }> {
    const bound = rows.filter((row) => !isPlain(row))
    if (bound.length === 0) return { taken: [...rows], left: false }
    const limits = await tryLockLimits(
      tx,
      bound.flatMap((row) => row.limits ?? []),
    )
    const candidates = bound.map((row) => ({ row: row.id, limits: row.limits ?? [], paused: row.paused }))
    const { take, park, used, unpark } = admit(candidates, limits)
    const ids = new Map(bound.map((row) => [row.id, row.new_id]))
    await tx.run(ADMITTED, [
      plain(take),
      plain(take.map((row) => ids.get(row)!)),
      plain(park.map(({ row }) => row)),
      plain(park.map(({ limit }) => limit)),
      plain([...used.keys()]),
      holder,
      now,
      plain([...used.values()]),
      plain([...unpark.keys()]),
      plain([...unpark.values()]),
    ])
    const taken = new Set(take)
    return { taken: rows.filter((row) => isPlain(row) || taken.has(row.id)), left: take.length + park.length < bound.length }
  }
}

const isPlain = (row: Taken): boolean => row.limits === null && !row.paused

const locked = (answer: readonly Answer[]): Taken[] => answer.filter((row) => row.id !== null)
