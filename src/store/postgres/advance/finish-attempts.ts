// Finishes rows, all of a batch in one statement: the row, its container, the downstream rows and the counters of its run. Only rows
// whose fence holds have an effect; their downstream rows are known beforehand from the compiled workflow (`edgesOf`). The statement
// locks runs first, in order, so that transactions on overlapping runs cannot wait for each other.

import type { AttemptId } from "../../../core/model/ids.ts"
import { countedOutcome, type Edge, edgesOf, isAllowedFailure } from "../../../core/rules/changes/effects.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { sourceState } from "../../shared/source-state.ts"
import { nodeOf, type Workflows } from "../cache/workflows.ts"
import type { ClaimRequest } from "../claim/candidates.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"
import { deleteFrom, insertInto, READINESS } from "../claim/ready-queue.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { RUNS_AFTER, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { COUNT_CONTAINERS, COUNT_RUNS } from "./count-down.ts"
import { type Finish, finishParams, type FinishResult, FREED_QUEUE_LIMITS, NOTHING_FINISHED, RESULT_COLUMNS } from "./finish.ts"
import { finishJobSuccesses } from "./finish-job-successes.ts"
import { finishSuccesses, isTopLevelSuccess, planSuccesses, type SuccessesPlan } from "./finish-successes.ts"

const FINISH_ATTEMPTS = statement(
  "finish_attempts",
  `WITH change AS (
     SELECT * FROM unnest(:rows::bigint[], :attempts::uuid[], :sources::text[], :statuses::text[], :skipReasons::text[], :attemptStates::text[],
       :outputs::text[], :outputKeys::text[], :outputBytes::bigint[], :errors::text[], :exitCodes::int[], :usages::text[],
       :externalIds::text[], :startedAts::bigint[], :finishedAts::bigint[], :allowedFailures::boolean[], :upstreamOutcomes::text[], :targets::text[],
       :reroutes::text[])
     AS c (id, attempt_id, from_state, status, skip_reason, attempt_state, output, output_key, output_bytes, error, exit_code, usage,
       external_id, started_at, finished_at, allowed_failure, upstream_outcome, targets, reroutes)
   ), locked AS MATERIALIZED (
     SELECT seq FROM runs WHERE seq = ANY (:runs::bigint[]) ORDER BY seq FOR UPDATE
   ), finished AS (
     UPDATE tasks t SET status = c.status, skip_reason = c.skip_reason, last_attempt_state = c.attempt_state, error = c.error, ${RESULT_COLUMNS},
       attempt_id = CASE WHEN c.from_state IN ('gate', 'container') THEN NULL ELSE t.attempt_id END
     FROM change c
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND CASE c.from_state
       WHEN 'gate' THEN ${sourceState("skip", "t")} WHEN 'container' THEN ${sourceState("gather", "t")}
       ELSE ${sourceState("finish", "t")} END AND ${RUNS_AFTER("locked")}
     RETURNING c.attempt_id, t.id, t.run_seq, t.path, t.parent_id, t.hook, t.kind, t.status, t.limits,
       t.started_at IS NOT NULL AS opened, c.allowed_failure, c.upstream_outcome, c.targets, c.reroutes
   ), ${COUNT_CONTAINERS},
   unblocked AS (
     UPDATE tasks t SET upstream_pending = t.upstream_pending - e.finished, upstream_failed = t.upstream_failed + e.failed,
       upstream_unmet = t.upstream_unmet + e.unmet, upstream_waived = t.upstream_waived + e.waived, lane = COALESCE(e.lane, t.lane)
     FROM (SELECT f.run_seq, target.node, f.path, max(target.lane) AS lane, count(*)::int AS finished,
             (count(*) FILTER (WHERE f.upstream_outcome = 'failed'))::int AS failed,
             (count(*) FILTER (WHERE f.upstream_outcome = 'unmet'))::int AS unmet,
             (count(*) FILTER (WHERE f.upstream_outcome = 'waived'))::int AS waived
           FROM finished f CROSS JOIN LATERAL unnest(f.targets::int[], f.reroutes::text[]) AS target (node, lane)
           WHERE f.targets IS NOT NULL GROUP BY f.run_seq, target.node, f.path) e
     WHERE t.run_seq = e.run_seq AND t.node = e.node AND t.path = e.path AND t.status = 'pending'
     RETURNING ${READINESS("t")}, t.upstream_pending = 0 AND t.lane = ANY (:gateLanes::text[]) AS gate
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "finished")}
   ), enqueued AS (
     ${insertInto("ready_queue", "unblocked")}
   ), ${COUNT_RUNS}
   SELECT (SELECT array_agg(attempt_id) FROM finished) AS finished, (SELECT array_agg(seq) FROM counted WHERE done) AS done_runs,
     (SELECT count(*) FROM unblocked WHERE ready)::int AS ready, EXISTS (SELECT 1 FROM unblocked WHERE gate) AS gate_ready,
     ${FREED_QUEUE_LIMITS} AS queue_limits, (SELECT count(*) FROM containers WHERE ready)::int AS containers_ready,
     (SELECT json_agg(json_build_object('limits', limits, 'opened', opened))
      FROM finished WHERE kind = 'group' AND limits IS NOT NULL) AS groups`,
)

interface Reply {
  finished: AttemptId[] | null
  done_runs: number[] | null
  ready: number
  gate_ready: boolean
  queue_limits: QueueLimit[] | null
  containers_ready: number
  groups: FinishResult["groups"] | null
}

/** The rows of a batch to finish. */
export interface FinishPlan {
  finishes: readonly Finish[]
  /** Edges of each finish. */
  edges: readonly Edge[][]
  /** Set when all are plain successes. */
  successes: SuccessesPlan | null
  /** Whether all are successes of jobs that were not read (finish-job-successes.ts). */
  jobSuccesses: boolean
}

/** `verifyEachFence`: a fence of the batch was lost. `claim`: what may be claimed of the unblocked rows. */
interface FinishOptions {
  verifyEachFence: boolean
  claim: ClaimRequest | null
  jobSuccesses: boolean
}

export const planFinishes = (
  workflows: Workflows,
  finishes: readonly Finish[],
  { verifyEachFence, claim, jobSuccesses }: FinishOptions,
): FinishPlan => {
  if (jobSuccesses) return { finishes, edges: [], successes: null, jobSuccesses }
  const edges = finishes.map((finish) => edgesOfFinish(finish, workflows))
  const plain = !verifyEachFence && finishes.length > 0 && finishes.every((finish) => isTopLevelSuccess(finish, workflows))
  return { finishes, edges, successes: plain ? planSuccesses(workflows, finishes, edges, claim) : null, jobSuccesses }
}

const edgesOfFinish = ({ inFlight, status, skip }: Finish, workflows: Workflows): Edge[] => {
  if (isJobRow(inFlight.runSeq)) return []
  const scope = { id: inFlight.runId, private: inFlight.private, rootRunId: inFlight.rootRunId }
  const workflow = workflows.getLoaded(inFlight.versionId)
  return edgesOf(workflow, scope, inFlight, countedOutcome(workflow.nodes[inFlight.node]!, inFlight.kind, status, skip))
}

const isAllowed = ({ inFlight, status }: Finish, workflows: Workflows): boolean =>
  !isJobRow(inFlight.runSeq) && isAllowedFailure(nodeOf(workflows, inFlight), inFlight.kind, status)

/** Sends its statement before it returns. Throws OutdatedPlan when successes lost a fence. */
export const finishAttempts = async (
  tx: Tx,
  { finishes, edges, successes, jobSuccesses }: FinishPlan,
  lanes: { gateLanes: readonly string[]; freedLimitKeys: readonly string[] },
): Promise<FinishResult> => {
  if (finishes.length === 0) return NOTHING_FINISHED
  if (jobSuccesses) return finishJobSuccesses(tx, finishes, lanes)
  if (successes !== null) return finishSuccesses(tx, successes, lanes)
  const [reply] = await tx.run<Reply>(FINISH_ATTEMPTS, {
    ...finishParams(finishes),
    ...lanes,
    sources: finishes.map(({ from }) => from),
    statuses: finishes.map(({ status }) => status),
    skipReasons: finishes.map(({ skip }) => skip),
    attemptStates: finishes.map(({ attemptState }) => attemptState),
    errors: finishes.map(({ error }) => error),
    allowedFailures: finishes.map((finish) => isAllowed(finish, tx.workflows)),
    upstreamOutcomes: edges.map((list) => list[0]?.outcome ?? null),
    targets: edges.map((list) => (list.length === 0 ? null : arrayParam(list.map((edge) => edge.node)))),
    reroutes: edges.map((list) => textArrayParam(list.map((edge) => edge.reroute))),
    runs: [...new Set(finishes.map(({ inFlight }) => inFlight.runSeq))],
  })
  const { finished, done_runs, ready, gate_ready, queue_limits, containers_ready, groups } = reply!
  return {
    finished: new Set(finished),
    closableRuns: done_runs ?? [],
    ready: ready + containers_ready,
    gateReady: gate_ready || containers_ready > 0,
    queueLimits: queue_limits ?? [],
    groups: groups ?? [],
    claimedOnUnblock: [],
    claimable: true,
  }
}
