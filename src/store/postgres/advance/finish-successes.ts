// Finishes successful tasks outside of groups and fan-outs, as most are, all of a batch in one statement. Their effects on downstream
// rows and runs are summed up beforehand, as if every fence held. When one does not, the caller rolls the transaction back (OutdatedPlan) and
// repeats it with finish-attempts.ts, which verifies each fence.
//
// The statement also claims rows that it unblocks, when a claim would choose them first: no ready row outranks them, and no other
// workflow or lane has to be served in turn. Such rows are written once less, and never enqueued.

import { workLane } from "../../../core/routing/lanes.ts"
import { compareReady, needsRoundRobin } from "../../../core/rules/claims/claim-order.ts"
import type { Edge } from "../../../core/rules/changes/effects.ts"
import { taskPriority } from "../../../core/rules/runs/new-rows.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { precedesReady } from "../../shared/claim-order.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { sourceState } from "../../shared/source-state.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { type ClaimRequest, READY_ORDER } from "../claim/candidates.ts"
import { TASK_COLUMNS, TASK_COLUMN_NAMES, type ClaimedRow, ATTEMPT_ID } from "../claim/claimed-row.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"
import { deleteFrom, insertInto, READY } from "../claim/ready-queue.ts"
import { ALL_RESTRICTED_LANES, IS_WANTED, laneParams, TWO_RESTRICTED_LANES } from "../claim/wanted-lanes.ts"
import { NOW } from "../connection/store-clock.ts"
import { RUNS_AFTER, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { nodeOf, type Workflows } from "../cache/workflows.ts"
import { type Finish, finishParams, type FinishResult, FREED_QUEUE_LIMITS, RESULT_COLUMNS } from "./finish.ts"

/** An attempt of the batch does not hold its row any more, or a job was claimed that has expired: the transaction must not be committed. */
export class OutdatedPlan extends Error {}

/**
 * Limits a set to as many rows as it has. Postgres assumes that an unknown limit is small, and looks the rows up one by one, even
 * when it plans while the table is empty and a scan of all of it looks as good.
 */
export const ROW_ESTIMATE = (array: string): string => `LIMIT cardinality(:${array})`

/** Core `precedesReady` for the row `t` and the first row of the ready queue, `k.head_…`. */
export const PRECEDES_READY = `(k.ready_empty OR NOT k.needs_round_robin AND ${precedesReady(
  (column) => `t.${column}`,
  (column) => `k.head_${column}`,
)})`

/** The row `t` is claimed. It carries nothing of an earlier attempt: rows with pending upstreams were never dispatched, or were reset. */
const IS_CLAIMED = `k.allowed AND t.upstream_pending = k.finished AND t.kind = 'task' AND t.limits IS NULL AND t.parked IS NULL
    AND t.available_at IS NULL AND t.attempt_id IS NULL AND ${IS_WANTED("t.lane")} AND ${PRECEDES_READY}`

const IF_CLAIMED = (column: string, value: string): string =>
  `${column} = CASE WHEN ${IS_CLAIMED} THEN ${value} ELSE t.${column} END`

const IF_OK = " AND (SELECT ok FROM guard)"

/** Finishes the rows whose fence holds. `condition`: further ones, each with AND. */
export const SUCCESS = (condition: string): string =>
  `UPDATE tasks t SET status = 'success', skip_reason = NULL, last_attempt_state = 'success', error = NULL, ${RESULT_COLUMNS}
     FROM (
       SELECT * FROM unnest(:rows::bigint[], :attempts::uuid[], :outputs::text[], :outputKeys::text[], :outputBytes::bigint[],
         :exitCodes::int[], :usages::text[], :externalIds::text[], :startedAts::bigint[], :finishedAts::bigint[])
         AS c (id, attempt_id, output, output_key, output_bytes, exit_code, usage, external_id, started_at, finished_at) ${ROW_ESTIMATE("rows")}
     ) c WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState("finish", "t")}${condition}
     RETURNING t.id, t.run_seq`

const HEAD_COLUMNS = "q.lane, q.priority, q.workflow_id, q.run_seq, q.id"

/**
 * Returns the CTEs of the statement; each has a comment. `guard`: a query with one column `ok`; nothing is written unless it is true.
 */
export const SUCCESSES = (guard: string | null): string => `
   -- Locks the runs in order and before any row, so that transactions cannot wait for each other, and before the first write, so that
   -- the transaction ids of turns on one run are in the order of the turns.
   locked AS MATERIALIZED (
     SELECT seq, status, open_tasks FROM runs WHERE seq = ANY (:runs::bigint[]) ORDER BY seq FOR UPDATE
   ), ${guard === null ? "" : `guard AS MATERIALIZED (${guard}), `}
   -- Counts the finished tasks in their runs. differs: the run is not as toClaimedRows assumes it (running, neither paused nor being
   -- cancelled, without an error, of the generation of the batch), so that nothing of it is claimed here.
   counted AS (
     UPDATE runs r SET open_tasks = GREATEST(r.open_tasks - e.tasks, 0), hooks_pending = GREATEST(r.hooks_pending - e.hooks, 0),
       tasks_success = r.tasks_success + e.tasks
     FROM (
       SELECT * FROM unnest(:runs::bigint[], :finishedTasks::int[], :finishedHooks::int[], :generations::int[])
         AS e (seq, tasks, hooks, generation) ${ROW_ESTIMATE("runs")}
     ) e WHERE r.seq = e.seq AND ${RUNS_AFTER("locked")}${guard === null ? "" : IF_OK}
     RETURNING r.seq, r.open_tasks = 0 AND r.status = 'running' AS done,
       r.paused OR r.cancelling IS NOT NULL OR r.status <> 'running' OR r.error IS NOT NULL OR r.generation <> e.generation AS differs
   ),
   -- Finishes the tasks whose fence holds.
   finished AS (
     ${SUCCESS(` AND ${RUNS_AFTER("counted")}${guard === null ? "" : IF_OK}`)}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "finished")}
   ),
   -- The holder, unless it is dead or a queue of the downstream tasks has settings: then nothing is claimed here.
   claimer AS MATERIALIZED (
     SELECT h.name FROM holders h WHERE h.id = :holder::uuid AND NOT h.dead
       AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = ANY (:downstreamQueues::text[]))
   ),
   -- Lanes of restricted work with ready rows.
   ${ALL_RESTRICTED_LANES},
   -- The first ready row of each lane of the claim.
   heads AS MATERIALIZED (
     SELECT f.* FROM (
       SELECT lane FROM unnest(:lanes::text[]) AS n (lane) UNION ALL SELECT lane FROM ${TWO_RESTRICTED_LANES} r
     ) l CROSS JOIN LATERAL (
       SELECT ${HEAD_COLUMNS} FROM ready_queue q WHERE q.lane = l.lane ORDER BY ${READY_ORDER} LIMIT 1
     ) f
     UNION ALL
     (SELECT ${HEAD_COLUMNS} FROM ready_queue q WHERE q.lane > :laneFrom::text AND q.lane < :laneTo::text ORDER BY ${READY_ORDER} LIMIT 1)
   ),
   -- The first ready row of all. needs_round_robin: several lanes or workflows share the next claims.
   head AS MATERIALIZED (
     SELECT count(*) = 0 AS ready_empty, min(h.lane) AS head_lane, min(h.priority) AS head_priority, min(h.workflow_id) AS head_workflow_id,
       min(h.run_seq) AS head_run_seq, min(h.id) AS head_id, count(*) > 1 OR bool_or(EXISTS (
         SELECT 1 FROM ready_queue q WHERE q.lane = h.lane AND q.priority = h.priority AND q.workflow_id > h.workflow_id
       ) OR EXISTS (SELECT 1 FROM ready_queue q WHERE q.lane > h.lane AND q.lane < :laneTo::text)) AS needs_round_robin
     FROM heads h
   ),
   -- Counts down the downstream rows and claims those that IS_CLAIMED selects. The path is a column of k, because with a constant
   -- Postgres may read all rows of that path.
   unblocked AS (
     UPDATE tasks t SET upstream_pending = GREATEST(t.upstream_pending - k.finished, 0), ${IF_CLAIMED("status", "'dispatched'")},
       ${IF_CLAIMED("attempt", "t.attempt + 1")}, ${IF_CLAIMED("attempt_id", ATTEMPT_ID("k.number"))},
       ${IF_CLAIMED("holder", ":holder::uuid")}, ${IF_CLAIMED("worker", "k.holder_name")}, ${IF_CLAIMED("dispatched_at", NOW)}
     FROM (
       SELECT d.*, h.*, c.name AS holder_name, c.name IS NOT NULL AND d.number <= :maxClaims::int
         AND d.run_seq <> ALL (ARRAY(SELECT seq FROM counted WHERE differs)) AS allowed
       FROM (
         SELECT *, ''::text AS path FROM unnest(:downstreamRuns::bigint[], :downstreamNodes::int[], :downstreamFinished::int[])
           WITH ORDINALITY AS d (run_seq, node, finished, number) ${ROW_ESTIMATE("downstreamRuns")}
       ) d CROSS JOIN head h LEFT JOIN claimer c ON true OFFSET 0
     ) k WHERE t.run_seq = k.run_seq AND t.node = k.node AND t.path = k.path AND t.status = 'pending'
       AND ${RUNS_AFTER("counted")}${guard === null ? "" : IF_OK}
     RETURNING ${TASK_COLUMNS}, t.attempt_id, ${READY("t")} AS ready, t.status = 'dispatched' AS is_claimed, k.number
   ), claimed AS (
     SELECT ${TASK_COLUMN_NAMES}, attempt_id, number FROM unblocked WHERE is_claimed
   ), now_in_flight AS (
     ${insertInto("in_flight", "claimed")}
   ), enqueued AS (
     ${insertInto("ready_queue", "unblocked")}
   ),
   -- One row for the caller: all_held is false when a fence was lost. claimable: rows are left that the claim could take.
   summary AS (
     SELECT (SELECT count(*) FROM finished) = cardinality(:rows) AS all_held, (SELECT array_agg(seq) FROM counted WHERE done) AS done_runs,
       (count(*) FILTER (WHERE ready))::int AS enqueued, COALESCE(bool_or(ready AND lane = ANY (:gateLanes::text[])), false) AS gate_ready,
       ${FREED_QUEUE_LIMITS} AS queue_limits,
       NOT (SELECT ready_empty FROM head) OR COALESCE(bool_or(ready AND ${IS_WANTED("lane")}), false) AS claimable
     FROM unblocked
   )`

export const FINISH_SUCCESSES = statement(
  "finish_successes",
  `WITH RECURSIVE ${SUCCESSES(null)} SELECT * FROM summary LEFT JOIN claimed ON true`,
)

interface Summary {
  all_held: boolean
  done_runs: number[] | null
  enqueued: number
  gate_ready: boolean
  queue_limits: QueueLimit[] | null
  claimable: boolean
}

type UnblockedRow = Omit<
  ClaimedRow,
  "limits" | "run_id" | "version_id" | "generation" | "cancelling" | "run_status" | "run_error" | "paused"
> & {
  /** Position in claim order. Postgres returns the rows in any order. */
  number: number
}

/** A row of the reply: the summary, and a claimed row if there is one. */
export type Reply = Summary & (UnblockedRow | { id: null })

const hasClaim = (row: Reply): row is Summary & UnblockedRow => row.id !== null

/** Returns whether the statement can finish this row. */
export const isTopLevelSuccess = ({ inFlight, from, status, error }: Finish, workflows: Workflows): boolean => {
  if (from !== "in_flight" || status !== "success" || error !== null || inFlight.kind !== "task") return false
  if (isJobRow(inFlight.runSeq)) return true
  const { group, fan } = nodeOf(workflows, inFlight)
  return group === null && fan === undefined
}

interface DownstreamRow {
  runSeq: number
  node: number
  /** The node, in place of the row's number, which is not known: rows of a run were inserted in the order of their nodes. */
  rowId: number
  finished: number
  priority: number
}

/** Effects of finished rows on their runs and on downstream rows. */
export interface Effects {
  /** By run, with any of its attempts. */
  runs: { anyAttempt: CachedAttempt; tasks: number; hooks: number }[]
  /** In claim order. */
  downstream: DownstreamRow[]
  /** Queues of the downstream rows whose settings apply to them. */
  queues: Set<string>
  /** Lanes of the downstream rows. */
  lanes: Set<string>
}

const sumEffects = (finishes: readonly Finish[], edges: readonly Edge[][], workflows: Workflows): Effects => {
  const runs = new Map<number, Effects["runs"][number] & { downstream: Map<number, DownstreamRow> }>()
  const queues = new Set<string>()
  const lanes = new Set<string>()
  for (const [i, { inFlight }] of finishes.entries()) {
    const { runSeq } = inFlight
    if (isJobRow(runSeq)) continue
    const { nodes } = workflows.getLoaded(inFlight.versionId)
    let run = runs.get(runSeq)
    if (run === undefined) runs.set(runSeq, (run = { anyAttempt: inFlight, tasks: 0, hooks: 0, downstream: new Map() }))
    run[nodes[inFlight.node]!.hook === null ? "tasks" : "hooks"] += 1
    for (const { node } of edges[i]!) {
      if (!inFlight.private) queues.add(nodes[node]!.queue)
      lanes.add(workLane({ id: inFlight.runId, private: inFlight.private, rootRunId: inFlight.rootRunId }, nodes[node]!))
      const row = run.downstream.get(node)
      if (row !== undefined) row.finished += 1
      else
        run.downstream.set(node, {
          runSeq,
          node,
          rowId: node,
          finished: 1,
          priority: taskPriority(nodes[node]!, inFlight.priority),
        })
    }
  }
  const sorted = [...runs.values()].sort((a, b) => a.anyAttempt.runSeq - b.anyAttempt.runSeq)
  const downstream = sorted.flatMap((run) => [...run.downstream.values()]).sort(compareReady)
  return { runs: sorted, downstream, queues, lanes }
}

/** Returns whether the statement that unblocks the rows may claim them. */
const mayClaim = ({ downstream, runs, lanes }: Effects, { maxClaims }: ClaimRequest): boolean => {
  const workflows = new Set(runs.map(({ anyAttempt }) => anyAttempt.workflowId)).size
  const counts = { rows: downstream.length, workflows, lanes: lanes.size }
  return maxClaims > 0 && downstream.length > 0 && !needsRoundRobin(counts, maxClaims)
}

/** Plain successes and their effects. */
export interface SuccessesPlan {
  finishes: readonly Finish[]
  effects: Effects
  /** The claim that the unblocked rows may serve; null: none may be claimed. */
  claim: ClaimRequest | null
}

/** Plans to finish rows that are plain successes. `edges`: of each finish. */
export const planSuccesses = (
  workflows: Workflows,
  finishes: readonly Finish[],
  edges: readonly Edge[][],
  claim: ClaimRequest | null,
): SuccessesPlan => {
  const effects = sumEffects(finishes, edges, workflows)
  return { finishes, effects, claim: claim !== null && mayClaim(effects, claim) ? claim : null }
}

const unblockedClaimParams = (tx: Tx, claim: ClaimRequest | null) => ({
  holder: claim?.holder ?? null,
  attemptIdPrefix: tx.clock.newAttemptIdPrefix(),
  ...laneParams(claim?.lanes ?? []),
  maxClaims: Math.min(claim?.maxClaims ?? 0, MAX_CANDIDATES),
})

export interface FinishLanes {
  gateLanes: readonly string[]
  /** Keys of the limits of queues whose slots are freed. */
  freedLimitKeys: readonly string[]
}

export const successesParams = (tx: Tx, { finishes, effects, claim }: SuccessesPlan, lanes: FinishLanes) => {
  const { runs, downstream, queues } = effects
  return {
    ...finishParams(finishes),
    runs: runs.map(({ anyAttempt }) => anyAttempt.runSeq),
    finishedTasks: runs.map(({ tasks }) => tasks),
    finishedHooks: runs.map(({ hooks }) => hooks),
    generations: runs.map(({ anyAttempt }) => anyAttempt.generation),
    downstreamRuns: downstream.map(({ runSeq }) => runSeq),
    downstreamNodes: downstream.map(({ node }) => node),
    downstreamFinished: downstream.map(({ finished }) => finished),
    downstreamQueues: [...queues],
    ...lanes,
    ...unblockedClaimParams(tx, claim),
  }
}

/** Sends its statement before it returns. Throws OutdatedPlan. */
export const finishSuccesses = async (tx: Tx, plan: SuccessesPlan, lanes: FinishLanes): Promise<FinishResult> =>
  toResult(plan, await tx.run<Reply>(FINISH_SUCCESSES, successesParams(tx, plan, lanes)))

/** Reads the reply. Throws OutdatedPlan. */
export const toResult = ({ finishes, effects }: SuccessesPlan, reply: readonly Reply[]): FinishResult => {
  const { all_held, done_runs, enqueued, gate_ready, queue_limits, claimable } = reply[0]!
  if (!all_held) throw new OutdatedPlan()
  return {
    finished: new Set(finishes.map(({ inFlight }) => inFlight.attemptId)),
    closableRuns: done_runs ?? [],
    ready: enqueued,
    gateReady: gate_ready,
    queueLimits: queue_limits ?? [],
    groups: [],
    claimedOnUnblock: toClaimedRows(reply, effects),
    claimable,
  }
}

/** Adds what is known of the runs: they are running, and neither paused nor being cancelled. */
const toClaimedRows = (reply: readonly Reply[], { runs }: Effects): ClaimedRow[] => {
  const attempts = new Map(runs.map(({ anyAttempt }) => [anyAttempt.runSeq, anyAttempt]))
  const claimed = reply.filter(hasClaim).toSorted((one, other) => one.number - other.number)
  return claimed.map((row) => {
    const { runId, versionId, generation } = attempts.get(row.run_seq)!
    return {
      ...row,
      run_id: runId,
      version_id: versionId,
      generation,
      cancelling: null,
      run_status: "running",
      run_error: null,
      limits: null,
      paused: false,
    }
  })
}
