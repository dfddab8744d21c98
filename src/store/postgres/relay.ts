// A turn of one statement, and so of one round trip: for a few plain successes where nothing else is ready. It ends them, takes what
// they made ready, and tells of both; there is nothing left to ask, so it is a transaction of its own. What it may not take it
// lists, as ever. Where it finds more to do than that, it fails as a whole, and the batch takes a turn of the usual kind.

import { everyCalled, everyOf, isNamed, queueOf } from "../../core/lanes.ts"
import { iso } from "../../core/ports.ts"
import type { CompiledWorkflow } from "../../core/workflow.ts"
import { encodeEvents, withDispatched } from "../event-codec.ts"
import { JOBS } from "../job-rows.ts"
import type { Batch, StoreEvent } from "../store.ts"
import { anyText, plain, texts } from "./arrays.ts"
import type { Task } from "./changes.ts"
import { CLAIMED, ME, MS, NEW_ID, type Taken } from "./claim.ts"
import { tellClaims, tellSteps } from "./events.ts"
import type { Step } from "./fold.ts"
import type { Instants } from "./instants.ts"
import type { Memory } from "./memory.ts"
import type { End } from "./outcome.ts"
import { queueKeys } from "./queue-limits.ts"
import { HOLD, LET_GO, LIST, READY } from "./ready.ts"
import { isCollision, isUnreadable, statement } from "./session.ts"
import { edgesOfEnds, endOf, isHook } from "./settle.ts"
import { addUp, ENDS, endValues, FEW, IS_HELD, isPlain, SUCCESS, type Sum } from "./succeed.ts"
import type { Sessions } from "./transaction.ts"
import type { Workflows } from "./workflows.ts"

/** $12, $13: by how much fewer tasks of which runs are open. */
const RUNS = `(SELECT * FROM unnest($12::bigint[], $13::int[]) AS e (seq, tasks) ${FEW("$12")})`

/** $14 … $16: the rows below, with how many of their upstreams have ended; $17 what is told of each if it is taken. */
const BELOW = `(
       SELECT * FROM unnest($14::bigint[], $15::int[], $16::int[], $17::text[]) WITH ORDINALITY AS b (run_seq, node, ended, told, place)
       ${FEW("$14")}
     )`

/** $18 holder, $19 attempt ids, $20 lanes and $21 to $22 those between two names, $23 their queues, NULL for all. */
const IS_WANTED = (lane: string): string => `(${lane} = ANY ($20::text[]) OR ${lane} > $21::text AND ${lane} < $22::text)`

const NOTHING_ELSE = `NOT EXISTS (SELECT 1 FROM queues q WHERE $23::text[] IS NULL OR q.name = ANY ($23))
     AND NOT EXISTS (SELECT 1 FROM ready_rows q WHERE q.lane = ANY ($20::text[]))
     AND NOT EXISTS (SELECT 1 FROM ready_rows q WHERE q.lane > $21::text AND q.lane < $22::text)`

/** A row that waited for others was never dispatched, or was set back (`FRESH`): nothing of an attempt is left in it. */
const GOES = `k.free AND t.upstream_left = k.ended AND t.kind = 'task' AND t.limits IS NULL AND t.parked IS NULL
  AND t.available_at IS NULL AND t.attempt_id IS NULL AND ${IS_WANTED("t.lane")}`

const IF_IT_GOES = (column: string, value: string): string => `${column} = CASE WHEN ${GOES} THEN ${value} ELSE t.${column} END`

/** Every fence held, no run is over, and no slots are to be given back. The text that is no number makes the statement fail. */
const WHOLE = `(SELECT count(*) FROM ended) = cardinality($2::bigint[]) AND NOT EXISTS (SELECT 1 FROM counted WHERE open = 0)
       AND NOT EXISTS (SELECT 1 FROM limits WHERE key = ANY ($25::text[]))`

/** $24 gate lanes, $25 queues' limits, $26 … $28 the batch of events, $29 channel, $30 who says it. */
export const RELAY = statement(
  "relay",
  `WITH ${ME(NOTHING_ELSE, "$18")}, counted AS (
     UPDATE runs r SET open = r.open - e.tasks, tasks_success = r.tasks_success + e.tasks FROM ${RUNS} e WHERE r.seq = e.seq
     RETURNING r.seq, r.open, r.id AS run_id, r.version_id, r.round, r.cancelling, r.status AS run_status, r.error AS run_error, r.paused
   ), ended AS (
     UPDATE tasks t SET ${SUCCESS} FROM ${ENDS} c WHERE ${IS_HELD} AND (SELECT count(*) FROM counted) >= 0
     RETURNING t.id, t.run_seq
   ), let_go AS (
     ${LET_GO("ended")}
   ), released AS (
     UPDATE tasks t SET upstream_left = t.upstream_left - k.ended, ${IF_IT_GOES("status", "'dispatched'")},
       ${IF_IT_GOES("attempt", "t.attempt + 1")}, ${IF_IT_GOES("attempt_id", "k.new_id")}, ${IF_IT_GOES("holder", "$18::uuid")},
       ${IF_IT_GOES("worker", "k.name")}, ${IF_IT_GOES("dispatched_at", "COALESCE($1::timestamptz, now())")}
     FROM (
       SELECT b.*, r.run_id, r.version_id, r.round, r.run_status, r.run_error, r.cancelling, false AS paused, NULL::bigint[] AS limits,
         ${NEW_ID("b.place", "$19")} AS new_id, me.name,
         COALESCE(me.free, false) AND NOT r.paused AND r.cancelling IS NULL AND r.run_status = 'running' AS free
       FROM ${BELOW} b JOIN counted r ON r.seq = b.run_seq LEFT JOIN me ON true
     ) k WHERE t.run_seq = k.run_seq AND t.node = k.node AND t.path = '' AND t.status = 'pending'
     RETURNING ${CLAIMED}, k.told, ${READY("t")} AS ready, t.status = 'dispatched' AS goes
   ), held AS (
     ${HOLD("released WHERE goes")}
   ), listed AS (
     ${LIST("released")}
   ), logged AS (
     INSERT INTO events (at, size, runs, events)
     SELECT COALESCE($1::timestamptz, now()), $26::int + count(*), $27::text,
       ${withDispatched("$28::text", { begun: "told", attempt: "attempt" })}
     FROM released WHERE goes
   )
   SELECT c.*, a.*, ${MS("COALESCE($1::timestamptz, now())")} AS now, CASE WHEN a.ready > 0 THEN pg_notify($29, $30)::text END AS said,
     (CASE WHEN ${WHOLE} THEN '1' ELSE 'this turn takes more than one statement' END)::int AS whole
   FROM (
     SELECT (count(*) FILTER (WHERE ready))::int AS ready, COALESCE(bool_or(ready AND lane = ANY ($24::text[])), false) AS gates,
       COALESCE(bool_or(ready AND ${IS_WANTED("lane")}), false) AS left_over
     FROM released
   ) a LEFT JOIN (SELECT * FROM released WHERE goes) c ON true`,
)

/** `ready`: rows that wait for a claim now; some of them for the gate, some that were wanted. */
type Answer = Taken & { ready: number; gates: boolean; left_over: boolean; now: number }

/** Ends that this turn is for, and what they do to others. */
export interface Leg {
  tasks: Task[]
  ends: End[]
  sum: Sum
}

/** More are as well served by a turn of two round trips. */
const MOST = 32

/** null: these changes take more than one statement. */
export const legOf = (workflows: Workflows, memory: Memory, { claim }: Batch, steps: readonly Step[]): Leg | null => {
  if (steps.length === 0 || steps.length > MOST || claim.limit <= 0 || everyCalled(claim.lanes).length > 0) return null
  const compiled = (versionId: number): CompiledWorkflow => workflows.now(versionId)
  const tasks: Task[] = []
  const ends: End[] = []
  for (const step of steps) {
    const { fence, last } = step
    const held = memory.held.get(fence.attemptId)
    if (held === undefined || held.row !== fence.row || held.runSeq === JOBS) return null
    if (held.limits !== null || !workflows.knows(held.versionId)) return null
    if (step.progress !== null || last?.kind !== "end" || last.cache !== undefined) return null
    const end = endOf(held, step, last)
    if (end === null || !isPlain(end, compiled)) return null
    tasks.push({ held, step })
    ends.push(end)
  }
  const sum = addUp(ends, edgesOfEnds(ends, compiled), (end) => isHook(end, compiled))
  if (sum.below.length > claim.limit || sum.runs.some(({ hooks }) => hooks > 0)) return null
  // Where nothing is below, the run may be over.
  const alive = new Set(sum.below.map(({ runSeq }) => runSeq))
  return alive.size < sum.runs.length ? null : { tasks, ends, sum }
}

export interface Relayed {
  taken: Taken[]
  /** What the ends and the claims tell. */
  events: StoreEvent[]
  /** Something was made ready for the gate. */
  gates: boolean
  /** There is something to claim that was not taken. */
  more: boolean
}

export interface RelayDeps {
  sessions: Sessions
  workflows: Workflows
  instants: Instants
  channel: string
  self: string
}

/** null: there was more to do than this, and nothing was done. */
export const relay = async (deps: RelayDeps, batch: Batch, { tasks, ends, sum }: Leg): Promise<Relayed | null> => {
  const { sessions, workflows, instants, channel, self } = deps
  const { holder, claim, gate } = batch
  const runs = sum.runs.toSorted((a, b) => a.runSeq - b.runSeq)
  const { below } = sum
  const events: StoreEvent[] = []
  const applied = new Map(tasks.map(({ step }) => [step, { availableAt: null }]))
  // Ends have instants of their own.
  tellSteps({ workflows, at: "", events }, tasks, { applied, expanded: new Set() })
  const heldOf = new Map(tasks.map(({ held }) => [held.runSeq, held]))
  const log = encodeEvents(
    events,
    below.map(({ runSeq, node }) => {
      const { runId, versionId } = heldOf.get(runSeq)!
      return { runId, task: workflows.now(versionId).nodes[node]!.name, path: "" }
    }),
  )
  const lanes = claim.lanes.filter(isNamed)
  const every = everyOf(claim.lanes)
  const values = [
    instants.now(),
    ...endValues(ends),
    plain(runs.map(({ runSeq }) => runSeq)),
    plain(runs.map((run) => run.tasks)),
    plain(below.map(({ runSeq }) => runSeq)),
    plain(below.map(({ node }) => node)),
    plain(below.map(({ ended }) => ended)),
    texts(log.dispatches),
    holder,
    instants.attemptIds(),
    anyText(lanes),
    every?.from ?? null,
    every?.to ?? null,
    every === null ? anyText(lanes.flatMap((lane) => queueOf(lane) ?? [])) : null,
    anyText(gate.lanes),
    anyText(queueKeys(tasks.map(({ held }) => held.lane))),
    events.length,
    JSON.stringify(log.runs),
    log.text,
    channel,
    self,
  ]
  try {
    const answer = await sessions.alone<Answer>(RELAY, values)
    const [{ gates, left_over: more, now }] = answer as [Answer]
    const taken = answer.filter(({ id }) => id !== null)
    await workflows.load(taken.map((row) => row.version_id))
    tellClaims({ workflows, at: iso(now), events }, taken)
    return { taken, events, gates, more }
  } catch (error) {
    if (isUnreadable(error) || isCollision(error)) return null
    throw error
  }
}
