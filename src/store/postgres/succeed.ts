// Successes of tasks that stand alone, as most ends are, all of a batch in one short statement. What they do to the rows below and
// to their runs is added up before, as if every fence held; when one did not, nothing of it counts (`FenceLost`), and the batch is
// settled anew by the statement that looks at each (settle.ts).

import type { Edge } from "../../core/effects.ts"
import type { CompiledWorkflow } from "../../core/workflow.ts"
import { JOBS } from "../job-rows.ts"
import { anyOf, anyText, plain, texts } from "./arrays.ts"
import { type End, OUTCOME, QUEUES, type Settled } from "./outcome.ts"
import type { QueueLimit } from "./queue-limits.ts"
import { LET_GO, LIST, READINESS } from "./ready.ts"
import { type Runner, statement, type Value } from "./session.ts"

/** An attempt of the batch was not held any more: the transaction must not be committed. */
export class FenceLost extends Error {}

/**
 * All of them; but Postgres, which plans for arrays of any length, takes a limit that it does not know for a few rows. So it looks them
 * up one by one, even if the table was empty at that time: to read all of the table would have been as good then, and is not later.
 */
export const FEW = (array: string): string => `LIMIT cardinality(${array}::bigint[])`

const ALL_HELD = "(SELECT count(*) FROM ended) = cardinality($2::bigint[])"

/** $2 … $11: the rows that end. */
export const ENDS = `(
       SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::int[], $8::text[], $9::text[],
         $10::bigint[], $11::bigint[])
         AS c (id, attempt_id, output, output_key, output_bytes, exit_code, usage, external_id, started_at, finished_at) ${FEW("$2")}
     )`

export const SUCCESS = `status = 'success', skip = NULL, outcome = 'success', error = NULL, ${OUTCOME}`

/** The row `t` is held as its end `c` says. */
export const IS_HELD = "t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running')"

const SUCCEED = statement(
  "succeed",
  `WITH locked AS MATERIALIZED (
     SELECT seq FROM runs WHERE seq = ANY ($12::bigint[]) ORDER BY seq FOR UPDATE
   ), ended AS (
     UPDATE tasks t SET ${SUCCESS} FROM ${ENDS} c WHERE ${IS_HELD} AND (SELECT count(*) FROM locked) >= 0
     RETURNING t.id, t.run_seq
   ), let_go AS (
     ${LET_GO("ended")}
   ), released AS (
     UPDATE tasks t SET upstream_left = t.upstream_left - e.ended
     FROM (SELECT * FROM unnest($15::bigint[], $16::int[], $17::int[]) AS e (run_seq, node, ended) ${FEW("$15")}) e
     WHERE t.run_seq = e.run_seq AND t.node = e.node AND t.path = '' AND t.status = 'pending' AND ${ALL_HELD}
     RETURNING ${READINESS("t")}
   ), listed AS (
     ${LIST("released")}
   ), counted AS (
     UPDATE runs r SET open = r.open - e.tasks, hooks_left = r.hooks_left - e.hooks, tasks_success = r.tasks_success + e.tasks
     FROM (SELECT * FROM unnest($12::bigint[], $13::int[], $14::int[]) AS e (seq, tasks, hooks) ${FEW("$12")}) e WHERE r.seq = e.seq AND ${ALL_HELD}
     RETURNING r.seq, r.open = 0 AND r.status = 'running' AS done
   )
   SELECT ${ALL_HELD} AS held, (SELECT array_agg(seq) FROM counted WHERE done) AS done, r.ready, r.gates, ${QUEUES("$19")} AS queues
   FROM (SELECT (count(*) FILTER (WHERE ready))::int AS ready, COALESCE(bool_or(ready AND lane = ANY ($18::text[])), false) AS gates
         FROM released) r`,
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
  if (held.runSeq === JOBS) return true
  const { group, fan } = compiled(held.versionId).nodes[held.node]!
  return group === null && fan === undefined
}

/** What ends do to others, added up: to rows below them and to their runs. */
export interface Sum {
  runs: { runSeq: number; tasks: number; hooks: number }[]
  below: Below[]
}

interface Below {
  runSeq: number
  node: number
  ended: number
}

/** `edges`: of each end. */
export const addUp = (ends: readonly End[], edges: readonly Edge[][], isHook: (end: End) => boolean): Sum => {
  const below = new Map<string, Below>()
  const runs = new Map<number, Sum["runs"][number]>()
  for (let i = 0; i < ends.length; i++) {
    const end = ends[i]!
    const { runSeq } = end.held
    if (runSeq === JOBS) continue
    let run = runs.get(runSeq)
    if (run === undefined) runs.set(runSeq, (run = { runSeq, tasks: 0, hooks: 0 }))
    run[isHook(end) ? "hooks" : "tasks"] += 1
    for (const { node } of edges[i]!) {
      const key = `${runSeq}/${node}`
      const row = below.get(key)
      if (row === undefined) below.set(key, { runSeq, node, ended: 1 })
      else row.ended += 1
    }
  }
  return { runs: [...runs.values()], below: [...below.values()] }
}

/** For `ENDS`. */
export const endValues = (ends: readonly End[]): Value[] => [
  plain(ends.map((end) => end.held.row)),
  plain(ends.map((end) => end.held.attemptId)),
  texts(ends.map((end) => end.output[0])),
  texts(ends.map((end) => end.output[1])),
  plain(ends.map((end) => end.output[2])),
  plain(ends.map((end) => end.exitCode)),
  texts(ends.map((end) => end.usage)),
  texts(ends.map((end) => end.externalId)),
  plain(ends.map((end) => end.startedAt)),
  plain(ends.map((end) => end.finishedAt)),
]

/** `edges`: of each end. Sends its statement at once. */
export const succeedRows = async (
  tx: Runner,
  now: string | null,
  ends: readonly End[],
  edges: readonly Edge[][],
  isHook: (end: End) => boolean,
  gateLanes: readonly string[],
  queues: readonly string[],
): Promise<Settled> => {
  const { runs, below } = addUp(ends, edges, isHook)
  const [answer] = await tx.run<Answer>(SUCCEED, [
    now,
    ...endValues(ends),
    anyOf(runs.map(({ runSeq }) => runSeq)),
    plain(runs.map(({ tasks }) => tasks)),
    plain(runs.map(({ hooks }) => hooks)),
    plain(below.map(({ runSeq }) => runSeq)),
    plain(below.map(({ node }) => node)),
    plain(below.map(({ ended }) => ended)),
    anyText(gateLanes),
    anyText(queues),
  ])
  const { held, done, ready, gates, queues: limits } = answer!
  if (!held) throw new FenceLost()
  const ended = new Set(ends.map((end) => end.held.attemptId))
  return { ended, done: done ?? [], ready, gates, queues: limits ?? [], groups: [] }
}
