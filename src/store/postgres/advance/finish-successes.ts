// Successes of tasks that stand alone, as most ends are, all of a batch in one short statement. What they do to the rows below and
// to their runs is added up before, as if every fence held; when one did not, nothing of it counts (`FenceLost`), and the batch is
// settled anew by the statement that looks at each (settle.ts).

import type { Edge } from "../../../core/rules/effects.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { taskPriority } from "../../../core/rules/new-rows.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { anyTextParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { TAKEN } from "../claim/claim.ts"
import {
  NONE_BEFORE_IT,
  CLAIM_UNBLOCKED,
  type UnblockedRow,
  claimedUnblocked,
  type Claimer,
  takerValues,
} from "../claim/claim-unblocked.ts"
import { type End, OUTCOME, QUEUES, type Settled } from "./outcome.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"
import { REMOVE_IN_FLIGHT, ENQUEUE, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement, type Value } from "../connection/connection.ts"
import { CLAIMED_NAMES } from "../claim/claimed-row.ts"

/** An attempt of the batch was not held any more: the transaction must not be committed. */
export class FenceLost extends Error {}

/**
 * All of them; but Postgres, which plans for arrays of any length, takes a limit that it does not know for a few rows. So it looks them
 * up one by one, even if the table was empty at that time: to read all of the table would have been as good then, and is not later.
 */
const FEW = (array: string): string => `LIMIT cardinality(${array}::bigint[])`

/** $2 … $11: the rows that end. */
const ENDS = `(
       SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::int[], $8::text[], $9::text[],
         $10::bigint[], $11::bigint[])
         AS c (id, attempt_id, output, output_key, output_bytes, exit_code, usage, external_id, started_at, finished_at) ${FEW("$2")}
     )`

/** $12 … $15: their runs, by how much fewer of their rows are open, and in which round they were known. */
const RUNS = `(
       SELECT * FROM unnest($12::bigint[], $13::int[], $14::int[], $15::int[]) AS e (seq, tasks, hooks, generation) ${FEW("$12")}
     )`

/**
 * Runs come first, in their order, and rows after them: transactions cannot wait for each other. They are locked before anything is
 * written: the number of the transaction, and so the place of its events, is that of its turn where all are of one run. `stopped`: nothing of it may start.
 */
export const SUCCEEDED = `locked AS MATERIALIZED (
     SELECT seq FROM runs WHERE seq = ANY ($12::bigint[]) ORDER BY seq FOR UPDATE
   ), counted AS (
     UPDATE runs r SET open_tasks = GREATEST(r.open_tasks - e.tasks, 0), hooks_pending = GREATEST(r.hooks_pending - e.hooks, 0),
       tasks_success = r.tasks_success + e.tasks
     FROM ${RUNS} e WHERE r.seq = e.seq AND (SELECT count(*) FROM locked) >= 0
     RETURNING r.seq, r.open_tasks = 0 AND r.status = 'running' AS done,
       r.paused OR r.cancelling IS NOT NULL OR r.status <> 'running' OR r.error IS NOT NULL OR r.generation <> e.generation AS stopped
   ), ended AS (
     UPDATE tasks t SET status = 'success', skip_reason = NULL, outcome = 'success', error = NULL, ${OUTCOME} FROM ${ENDS} c
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running')
       AND (SELECT count(*) FROM counted) >= 0
     RETURNING t.id, t.run_seq
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("ended")}
   )`

export const ALL_HELD = "(SELECT count(*) FROM ended) = cardinality($2::bigint[])"

/**
 * $16 … $18: the rows below, and how many of their upstreams have ended. `also`: more columns. The path is a column too, since with a
 * constant Postgres may read all rows of that path, if it plans while there are none.
 */
export const BELOW = (also = { values: "", names: "" }): string => `(
       SELECT *, ''::text AS path FROM unnest($16::bigint[], $17::int[], $18::int[]${also.values}) WITH ORDINALITY
         AS b (run_seq, node, ended${also.names}, place) ${FEW("$16")}
     )`

/** $19 the gate's lanes. */
export const IS_GATES = "lane = ANY ($19::text[])"

/** $20 keys of queues' limits. `ready`: rows that were listed. */
const ANSWER = `answer AS (
     SELECT ${ALL_HELD} AS held, (SELECT array_agg(seq) FROM counted WHERE done) AS done, (count(*) FILTER (WHERE ready))::int AS ready,
       COALESCE(bool_or(ready AND ${IS_GATES}), false) AS gates, ${QUEUES("$20")} AS queues
     FROM released
   )`

export const SUCCEED = statement(
  "succeed",
  `WITH ${SUCCEEDED}, released AS (
     UPDATE tasks t SET upstream_pending = GREATEST(t.upstream_pending - e.ended, 0) FROM ${BELOW()} e
     WHERE t.run_seq = e.run_seq AND t.node = e.node AND t.path = e.path AND t.status = 'pending' AND (SELECT count(*) FROM counted) >= 0
     RETURNING ${READINESS("t")}
   ), listed AS (
     ${ENQUEUE("released")}
   ), ${ANSWER} SELECT * FROM answer`,
)

/** With the first row alone: nobody has to read it with each. */
const ONCE = (value: string): string => `CASE WHEN COALESCE(nth, 1) = 1 THEN ${value} END`

export const SUCCEED_ONWARD = statement(
  "succeed_onward",
  `WITH ${SUCCEEDED}, ${CLAIM_UNBLOCKED(NONE_BEFORE_IT, BELOW())}, ${ANSWER}
   SELECT ${CLAIMED_NAMES}, new_id, ${["held", "done", "ready", "gates", "queues"].map((name) => `${ONCE(name)} AS ${name}`).join(", ")},
     ${ONCE(`(SELECT set_config('${TAKEN}', count(*)::text, true) FROM onward)`)} AS noted
   FROM answer LEFT JOIN (SELECT *, row_number() OVER () AS nth FROM onward) o ON true`,
)

interface Answer {
  held: boolean
  done: number[] | null
  ready: number
  gates: boolean
  queues: QueueLimit[] | null
}

/** Whether the short statement is for this end. */
export const isPlain = ({ held, from, status, error }: End, compiled: (versionId: number) => CompiledWorkflow): boolean => {
  if (from !== "live" || status !== "success" || error !== null || held.kind !== "task") return false
  if (isJobRow(held.runSeq)) return true
  const { group, fan } = compiled(held.versionId).nodes[held.node]!
  return group === null && fan === undefined
}

/** What ends do to others, added up: to their runs, which one of them names, and to the rows below, in the order of claims. */
export interface Sum {
  runs: { of: End["held"]; tasks: number; hooks: number }[]
  below: { runSeq: number; node: number; ended: number; priority: number }[]
  /** Of the rows below, as far as their settings hold for them. */
  queues: Set<string>
}

/** `edges`: of each end. */
export const addUp = (
  ends: readonly End[],
  edges: readonly Edge[][],
  compiled: (versionId: number) => CompiledWorkflow,
): Sum => {
  const below = new Map<string, Sum["below"][number]>()
  const runs = new Map<number, Sum["runs"][number]>()
  const queues = new Set<string>()
  for (let i = 0; i < ends.length; i++) {
    const { held } = ends[i]!
    const { runSeq } = held
    if (isJobRow(runSeq)) continue
    const { nodes } = compiled(held.versionId)
    let run = runs.get(runSeq)
    if (run === undefined) runs.set(runSeq, (run = { of: held, tasks: 0, hooks: 0 }))
    run[nodes[held.node]!.hook === null ? "tasks" : "hooks"] += 1
    for (const { node } of edges[i]!) {
      if (!held.private) queues.add(nodes[node]!.queue)
      const key = `${runSeq}/${node}`
      const row = below.get(key)
      if (row === undefined) below.set(key, { runSeq, node, ended: 1, priority: taskPriority(nodes[node]!, held.priority) })
      else row.ended += 1
    }
  }
  return {
    runs: [...runs.values()].sort((a, b) => a.of.runSeq - b.of.runSeq),
    below: [...below.values()].sort((a, b) => b.priority - a.priority || a.runSeq - b.runSeq || a.node - b.node),
    queues,
  }
}

/** Of $1 to $20. */
export const succeedValues = (
  now: string | null,
  ends: readonly End[],
  { runs, below }: Sum,
  gateLanes: readonly string[],
  queues: readonly string[],
): Value[] => [
  now,
  arrayParam(ends.map((end) => end.held.row)),
  arrayParam(ends.map((end) => end.held.attemptId)),
  textArrayParam(ends.map((end) => end.output[0])),
  textArrayParam(ends.map((end) => end.output[1])),
  arrayParam(ends.map((end) => end.output[2])),
  arrayParam(ends.map((end) => end.exitCode)),
  textArrayParam(ends.map((end) => end.usage)),
  textArrayParam(ends.map((end) => end.externalId)),
  arrayParam(ends.map((end) => end.startedAt)),
  arrayParam(ends.map((end) => end.finishedAt)),
  arrayParam(runs.map(({ of }) => of.runSeq)),
  arrayParam(runs.map(({ tasks }) => tasks)),
  arrayParam(runs.map(({ hooks }) => hooks)),
  arrayParam(runs.map(({ of }) => of.generation)),
  arrayParam(below.map(({ runSeq }) => runSeq)),
  arrayParam(below.map(({ node }) => node)),
  arrayParam(below.map(({ ended }) => ended)),
  anyTextParam(gateLanes),
  anyTextParam(queues),
]

/** Workflows, and queues that there is no room for, share what is free: claims see to that. */
const mayGoOn = ({ below, runs, queues }: Sum, { limit }: Claimer): boolean =>
  below.length > 0 &&
  runs.every(({ of }) => of.workflowId === runs[0]!.of.workflowId) &&
  (below.length <= limit || queues.size <= 1)

/** `edges`: of each end; `taker`: who takes what becomes ready. Sends its statement at once. */
export const succeedRows = async (
  tx: SqlRunner,
  now: string | null,
  ends: readonly End[],
  edges: readonly Edge[][],
  compiled: (versionId: number) => CompiledWorkflow,
  gateLanes: readonly string[],
  queues: readonly string[],
  taker: Claimer | null,
): Promise<Settled> => {
  const sum = addUp(ends, edges, compiled)
  const values = succeedValues(now, ends, sum, gateLanes, queues)
  const answers = await (taker !== null && mayGoOn(sum, taker)
    ? tx.run<Answer & Partial<UnblockedRow>>(SUCCEED_ONWARD, [...values, ...takerValues(taker, sum.queues)])
    : tx.run<Answer & { id?: never }>(SUCCEED, values))
  const { held, done, ready, gates, queues: limits } = answers[0]!
  if (!held) throw new FenceLost()
  const ended = new Set(ends.map((end) => end.held.attemptId))
  const onward = claimedUnblocked(answers, sum.runs)
  return { ended, done: done ?? [], ready, gates, queues: limits ?? [], groups: [], onward }
}
