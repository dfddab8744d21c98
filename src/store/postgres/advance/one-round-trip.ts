// A turn of one round trip, for a few plain successes of one run while nothing else is ready, as in a chain of tasks. One statement
// finishes the rows, claims what they unblock and logs the events of both; the poll and COMMIT are sent with it. The statement writes
// nothing when a fence is lost, the run ends or slots of a queue are freed: the loop then repeats the turn as usual. Everything
// else that the poll reports is left to the next turn (`more`).

import { encodeEvents, withDispatched } from "../../shared/event-codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { sourceState } from "../../shared/source-state.ts"
import type { AdvanceResult, Batch } from "../../contract/store.ts"
import { cacheableResults } from "../cache/cache.ts"
import { TASK_COLUMN_NAMES } from "../claim/claimed-row.ts"
import { queueKeys } from "../claim/queue-limits.ts"
import { toTaskClaims } from "../claim/to-claims.ts"
import { RUNS_AFTER, pipelined, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { claimRequest } from "../claim/candidates.ts"
import type { CommittedTurn, TurnInput } from "./advance.ts"
import type { AttemptUpdate } from "./apply-changes.ts"
import { emitChanges, emitClaims } from "./events.ts"
import { type Finish, type FinishResult, toFinish } from "./finish.ts"
import { planFinishes } from "./finish-attempts.ts"
import { type Reply, SUCCESSES, successesParams, type SuccessesPlan, toResult } from "./finish-successes.ts"
import type { TurnState } from "./hints.ts"
import { notificationsOfFinish } from "./notify-tasks.ts"
import { type PendingWork, readPendingWork } from "./timers.ts"

/** Whether all fences hold, the run has other open tasks, and no slots of queues are freed. Locks the rows. */
const GUARD = `
     SELECT (SELECT count(*) FROM (
       SELECT 1 FROM unnest(:rows::bigint[], :attempts::uuid[]) AS c (id, attempt_id)
       JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id
       WHERE ${sourceState("finish", "t")} AND ${RUNS_AFTER("locked")} FOR UPDATE OF t
     ) held) = cardinality(:rows)
       AND NOT EXISTS (SELECT 1 FROM locked l WHERE l.status = 'running' AND l.open_tasks <= (:finishedTasks::int[])[1])
       AND NOT EXISTS (SELECT 1 FROM limits WHERE key = ANY (:freedLimitKeys::text[])) AS ok`

/** `dispatchEvents`: beginning of the event of each downstream row, in case it is claimed. */
export const ADVANCE_IN_ONE_ROUND_TRIP = statement(
  "advance_in_one_round_trip",
  `WITH RECURSIVE ${SUCCESSES(GUARD)}, logged AS (
     INSERT INTO events (at, size, runs, events)
     SELECT ${NOW}, :eventCount::int + count(*), :eventRuns::text,
       ${withDispatched(":events::text", { prefix: "(:dispatchEvents::text[])[number]", attempt: "attempt" })}
     FROM claimed HAVING (SELECT ok FROM guard)
   )
   SELECT ok, s.*, ${TASK_COLUMN_NAMES}, attempt_id,
     CASE WHEN s.enqueued > 0 THEN pg_notify(:channel, :sender)::text END AS notified
   FROM guard CROSS JOIN summary s LEFT JOIN claimed ON true`,
)

/** Most finished and downstream rows of such a turn: with more, round trips do not matter. */
const MAX_ROWS = 32

/** Returns null when the changes need another kind of turn. */
const planTurn = ({ cache, workflows }: Tx, { batch, coalesced }: TurnInput): [AttemptUpdate[], SuccessesPlan] | null => {
  const { attempts, rejected } = coalesced
  if (rejected.length > 0 || attempts.length === 0 || attempts.length > MAX_ROWS) return null
  const updates: AttemptUpdate[] = []
  const finishes: Finish[] = []
  for (const attempt of attempts) {
    const inFlight = cache.inFlight.get(attempt.fence.attemptId)
    const { last, progress, fence } = attempt
    if (inFlight === undefined || inFlight.row !== fence.row || inFlight.limits !== null || isJobRow(inFlight.runSeq))
      return null
    if (!workflows.isLoaded(inFlight.versionId) || progress !== null || last?.kind !== "finish" || last.cache !== undefined)
      return null
    const finish = toFinish(inFlight, attempt, last)!
    if (notificationsOfFinish(workflows, finish).notifications.length > 0) return null
    updates.push({ inFlight, attempt: attempt })
    finishes.push(finish)
  }
  const claim = claimRequest(batch.holder, batch.work)
  const { successes } = planFinishes(workflows, finishes, { verifyEachFence: false, claim, jobSuccesses: false })
  if (successes === null || successes.claim === null) return null
  const { runs, downstream } = successes.effects
  return runs.length > 1 || downstream.length > Math.min(claim.maxClaims, MAX_ROWS) ? null : [updates, successes]
}

/** Returns null when the changes need another kind of turn, or the guard rejected them (`onRejected`). Nothing was written then. */
export const advanceInOneRoundTrip = async (
  tx: Tx,
  input: TurnInput,
  onRejected: () => void,
): Promise<CommittedTurn | null> => {
  const planned = planTurn(tx, input)
  if (planned === null) return null
  const [updates, plan] = planned
  const applied = new Map(updates.map(({ attempt }) => [attempt, { availableAt: null }]))
  // Finishes carry their own instants.
  emitChanges(tx, "", updates, { outcomes: applied, expanded: new Set() })
  const sent = sendTurn(tx, input, updates, plan)
  const polling = pipelined(readPendingWork(tx, input.batch))
  void tx.commit()
  const reply = await sent
  const pending = await polling
  if (!reply[0]!.ok) {
    onRejected()
    return null
  }
  const finish = toResult(plan, reply)
  await tx.workflows.load(finish.claimedOnUnblock.map((row) => row.version_id))
  emitClaims(tx, pending.at, finish.claimedOnUnblock)
  const results = cacheableResults(plan.finishes)
  return {
    advanced: await toAdvanced(tx, input.batch, { pending, finish, results }),
    observed: observe(tx, input.batch, pending, finish),
    updates,
    applied,
    results,
    rows: finish.claimedOnUnblock,
  }
}

const sendTurn = (
  tx: Tx,
  { batch, wakeParams }: TurnInput,
  updates: readonly AttemptUpdate[],
  plan: SuccessesPlan,
): Promise<(Reply & { ok: boolean })[]> => {
  const [{ anyAttempt }] = plan.effects.runs as [SuccessesPlan["effects"]["runs"][number]]
  const { nodes } = tx.workflows.getLoaded(anyAttempt.versionId)
  const log = encodeEvents(
    tx.events,
    plan.effects.downstream.map(({ node }) => ({ runId: anyAttempt.runId, task: nodes[node]!.name, path: "" })),
  )
  const freedLimitKeys = queueKeys(updates.map(({ inFlight }) => inFlight.lane))
  return tx.run(ADVANCE_IN_ONE_ROUND_TRIP, {
    ...successesParams(tx, plan, { gateLanes: batch.gate.lanes, freedLimitKeys }),
    dispatchEvents: log.dispatches,
    eventCount: tx.events.length,
    eventRuns: JSON.stringify(log.runs),
    events: log.text,
    ...wakeParams,
  })
}

/** Leaves timers, cancels, the gate and other ready rows to the next turn (`more`). */
const toAdvanced = async (
  tx: Tx,
  { work: claim, gate }: Batch,
  { pending, finish, results }: { pending: PendingWork; finish: FinishResult; results: CommittedTurn["results"] },
): Promise<AdvanceResult> => {
  const { cancelling, dueMs } = pending
  const { claimedOnUnblock, claimable, gateReady } = finish
  return {
    rejected: [],
    gateClaims: [],
    claims: await toTaskClaims(tx, claimedOnUnblock, results),
    cancelling: cancelling.filter(({ ours }) => ours).map(({ runSeq, reason }) => ({ runSeq, reason })),
    stopRequests: pending.stopRequests,
    closed: [],
    events: tx.events,
    more:
      (claimable && claimedOnUnblock.length < claim.maxClaims) ||
      ((gateReady || pending.gateReady) && gate.maxClaims > 0) ||
      cancelling.length > 0 ||
      (dueMs !== null && dueMs <= 0),
    nextDueMs: dueMs === null ? null : Math.max(0, Math.ceil(dueMs)),
  }
}

const observe = (tx: Tx, { gate }: Batch, pending: PendingWork, { claimable, gateReady }: FinishResult): TurnState => ({
  localNow: tx.clock.localNow(),
  dueMs: pending.dueMs,
  cancelling: pending.cancelling.length,
  gateReady: gateReady || pending.gateReady,
  gatesClaimed: 0,
  gateMaxClaims: gate.maxClaims,
  readyDrained: !claimable,
})
