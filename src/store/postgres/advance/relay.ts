// A turn of one statement, and so of one round trip: for a few plain successes of one run, if the turn before left nothing to claim. It
// ends them, takes what they made ready if nothing else is, and tells of both; there is nothing left to ask, so it is a transaction of its own. What it
// may not take it lists. If a fence was lost, a run is over or slots are to be given back, it fails as a whole: the batch then
// takes a turn of the usual kind.

import { wildcardFunctions } from "../../../core/routing/lanes.ts"
import { iso } from "../../../core/model/ports.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { encodeEvents, withDispatched } from "../../shared/event-codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Batch, StoreEvent } from "../../contract/store.ts"
import { textArrayParam } from "../connection/array-params.ts"
import type { Task } from "./changes.ts"
import { CLAIMED_NAMES, MS, type ClaimedRow } from "../claim/claimed-row.ts"
import { emitClaims, emitChanges } from "./events.ts"
import type { AttemptChanges } from "./coalesce-changes.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import type { Cache } from "../cache/cache.ts"
import {
  IS_WANTED,
  NOTHING_LISTED,
  CLAIM_UNBLOCKED,
  type UnblockedRow,
  claimedUnblocked,
  takerValues,
} from "../claim/claim-unblocked.ts"
import type { End } from "./outcome.ts"
import { queueKeys } from "../claim/queue-limits.ts"
import { isCollision, isUnreadable, statement } from "../connection/connection.ts"
import { edgesOfEnds, endOf } from "./finish-attempts.ts"
import { addUp, ALL_HELD, BELOW, IS_GATES, isPlain, SUCCEEDED, succeedValues, type Sum } from "./finish-successes.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"
import type { Workflows } from "../admin/workflows.ts"

/** The text that is no number makes the statement fail. */
const WHOLE = `(CASE WHEN ${ALL_HELD} AND NOT EXISTS (SELECT 1 FROM counted WHERE done)
       AND NOT EXISTS (SELECT 1 FROM limits WHERE key = ANY ($20::text[]))
     THEN '1' ELSE 'ork: this turn takes more than one statement, and is done again' END)::int`

/** $28 what is told of each row below if it is taken, $29 … $31 the batch of events, $32 channel, $33 who says it. */
export const RELAY = statement(
  "relay",
  `WITH ${SUCCEEDED}, ${CLAIM_UNBLOCKED(NOTHING_LISTED, BELOW({ values: ", $28::text[]", names: ", told" }), ["told"])}, logged AS (
     INSERT INTO events (at, size, runs, events)
     SELECT COALESCE($1::timestamptz, now()), $29::int + count(*), $30::text,
       ${withDispatched("$31::text", { begun: "told", attempt: "attempt" })}
     FROM onward
   ), answer AS (
     SELECT COALESCE(bool_or(ready), false) AS some, COALESCE(bool_or(ready AND ${IS_GATES}), false) AS gates,
       COALESCE(bool_or(ready AND ${IS_WANTED("lane")}), false) OR NOT (SELECT none FROM head) OR EXISTS (SELECT 1 FROM me WHERE NOT free) AS more
     FROM released
   )
   SELECT ${CLAIMED_NAMES}, new_id, a.gates, a.more, ${MS("COALESCE($1::timestamptz, now())")} AS now,
     CASE WHEN a.some THEN pg_notify($32, $33)::text END AS said, ${WHOLE} AS whole
   FROM answer a LEFT JOIN onward ON true`,
)

/** `gates`: something waits for the gate now; `more`: something is ready that could be claimed. */
type Answer = UnblockedRow & { gates: boolean; more: boolean; now: number }

/** Ends that this turn is for, and what they do to others. */
export interface Leg {
  tasks: Task[]
  ends: End[]
  sum: Sum
}

/** Ends, and rows below them: more are as well served by a turn of two round trips. */
const MOST = 32

/** null: these changes take more than one statement. */
export const legOf = (workflows: Workflows, memory: Cache, { claim }: Batch, steps: readonly AttemptChanges[]): Leg | null => {
  if (steps.length === 0 || steps.length > MOST || claim.limit <= 0 || wildcardFunctions(claim.lanes).length > 0) return null
  const compiled = (versionId: number): CompiledWorkflow => workflows.now(versionId)
  const tasks: Task[] = []
  const ends: End[] = []
  for (const step of steps) {
    const { fence, final } = step
    const held = memory.inFlight.get(fence.attemptId)
    if (held === undefined || held.row !== fence.row || isJobRow(held.runSeq)) return null
    if (held.limits !== null || !workflows.knows(held.versionId)) return null
    if (step.progress !== null || final?.kind !== "finish" || final.cache !== undefined) return null
    const end = endOf(held, step, final)
    if (end === null || !isPlain(end, compiled)) return null
    tasks.push({ held, step })
    ends.push(end)
  }
  const sum = addUp(ends, edgesOfEnds(ends, compiled), compiled)
  // Where nothing is below, the run may be over. Of several runs, another may have to be waited for: see `SUCCEEDED`.
  if (sum.runs.length > 1 || sum.below.length === 0 || sum.below.length > Math.min(claim.limit, MOST)) return null
  return { tasks, ends, sum }
}

export interface Relayed extends Pick<Answer, "gates" | "more"> {
  taken: ClaimedRow[]
  /** What the ends and the claims tell. */
  events: StoreEvent[]
}

export interface RelayDeps {
  sessions: ConnectionPool
  workflows: Workflows
  instants: StoreClock
  channel: string
  self: string
}

/** null: there was more to do than this, and nothing was done. */
export const relay = async (deps: RelayDeps, batch: Batch, { tasks, ends, sum }: Leg): Promise<Relayed | null> => {
  const { sessions, workflows, instants, channel, self } = deps
  const { holder, claim, gate } = batch
  const events: StoreEvent[] = []
  const applied = new Map(tasks.map(({ step }) => [step, { availableAt: null }]))
  // Ends have instants of their own.
  emitChanges({ workflows, at: "", events }, tasks, { applied, expanded: new Set() })
  const heldOf = new Map(sum.runs.map(({ of }) => [of.runSeq, of]))
  const log = encodeEvents(
    events,
    sum.below.map(({ runSeq, node }) => {
      const { runId, versionId } = heldOf.get(runSeq)!
      return { runId, task: workflows.now(versionId).nodes[node]!.name, path: "" }
    }),
  )
  const queues = queueKeys(tasks.map(({ held }) => held.lane))
  const values = [
    ...succeedValues(instants.now(), ends, sum, gate.lanes, queues),
    ...takerValues({ holder, ...claim, ids: instants.newAttemptIds() }, sum.queues),
    textArrayParam(log.dispatches),
    events.length,
    JSON.stringify(log.runs),
    log.text,
    channel,
    self,
  ]
  const answer = await sessions.alone<Answer>(RELAY, values).catch((error: unknown) => {
    if (isUnreadable(error) || isCollision(error)) return null
    throw error
  })
  if (answer === null) return null
  const [{ gates, more, now }] = answer as [Answer]
  const taken = claimedUnblocked(answer, sum.runs)
  await workflows.load(taken.map((row) => row.version_id))
  emitClaims({ workflows, at: iso(now), events }, taken)
  return { taken, events, gates, more }
}
