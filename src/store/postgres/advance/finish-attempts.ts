// Ends of rows, all of a batch in one statement: the row, its container, the rows below it and its run's counters. Only rows
// whose fence held have an effect; whom that concerns was worked out before from the compiled workflow (`edgesOf`).
// It locks the runs first, in order: transactions on overlapping runs cannot wait for each other.

import { type Edge, edgesOf } from "../../../core/rules/effects.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import { upstreamEnd } from "../../../core/model/status.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { type OutputColumns, outputColumns } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { anyParam, anyTextParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import type { FinalChange, AttemptChanges } from "./coalesce-changes.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import type { Claimer } from "../claim/claim-unblocked.ts"
import { type End, OUTCOME, QUEUES, type Settled } from "./outcome.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"
import { REMOVE_IN_FLIGHT, ENQUEUE, READINESS } from "../claim/ready-queue.ts"
import { COUNT_CONTAINERS, COUNT_RUNS } from "./count-down.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"
import { isPlain, succeedRows } from "./finish-successes.ts"

const END = statement(
  "end",
  `WITH change AS (
     SELECT * FROM unnest($2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
       $10::bigint[], $11::text[], $12::int[], $13::text[], $14::text[], $15::bigint[], $16::bigint[], $17::text[],
       $18::text[], $19::text[])
     AS c (id, attempt_id, held, status, skip_reason, outcome, output, output_key, output_bytes, error, exit_code, usage, external_id,
       started_at, finished_at, upstream_end, targets, lanes)
   ), locked AS MATERIALIZED (
     SELECT seq FROM runs WHERE seq = ANY ($20::bigint[]) ORDER BY seq FOR UPDATE
   ), ended AS (
     UPDATE tasks t SET status = c.status, skip_reason = c.skip_reason, outcome = c.outcome, error = c.error, ${OUTCOME},
       attempt_id = CASE WHEN c.held IN ('gate', 'container') THEN NULL ELSE t.attempt_id END
     FROM change c
     WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND CASE c.held
       WHEN 'gate' THEN t.status = 'pending' WHEN 'container' THEN t.status = 'pending' AND t.kind <> 'task'
       ELSE t.status IN ('dispatched', 'running') END AND (SELECT count(*) FROM locked) >= 0
     RETURNING c.attempt_id, t.id, t.run_seq, t.path, t.parent_id, t.hook, t.kind, t.status, t.limits, t.started_at IS NOT NULL AS opened, c.upstream_end,
       c.targets, c.lanes
   ), ${COUNT_CONTAINERS},
   released AS (
     UPDATE tasks t SET upstream_pending = t.upstream_pending - e.ended, upstream_failed = t.upstream_failed + e.failed,
       upstream_unmet = t.upstream_unmet + e.unmet, upstream_waived = t.upstream_waived + e.waived, lane = COALESCE(e.lane, t.lane)
     FROM (SELECT d.run_seq, x.node, d.path, max(x.lane) AS lane, count(*)::int AS ended,
             (count(*) FILTER (WHERE d.upstream_end = 'failed'))::int AS failed,
             (count(*) FILTER (WHERE d.upstream_end = 'unmet'))::int AS unmet,
             (count(*) FILTER (WHERE d.upstream_end = 'waived'))::int AS waived
           FROM ended d CROSS JOIN LATERAL unnest(d.targets::int[], d.lanes::text[]) AS x (node, lane)
           WHERE d.targets IS NOT NULL GROUP BY d.run_seq, x.node, d.path) e
     WHERE t.run_seq = e.run_seq AND t.node = e.node AND t.path = e.path AND t.status = 'pending'
     RETURNING ${READINESS("t")}, t.upstream_pending = 0 AND t.lane = ANY ($21::text[]) AS gate
   ), let_go AS (
     ${REMOVE_IN_FLIGHT("ended")}
   ), listed AS (
     ${ENQUEUE("released")}
   ), ${COUNT_RUNS}
   SELECT (SELECT array_agg(attempt_id) FROM ended) AS ended, (SELECT array_agg(seq) FROM counted WHERE done) AS done,
     (SELECT count(*) FROM released WHERE ready)::int AS ready, EXISTS (SELECT 1 FROM released WHERE gate) AS gates,
     ${QUEUES("$22")} AS queues, (SELECT count(*) FROM containers WHERE ready)::int AS gathers,
     (SELECT json_agg(json_build_object('limits', limits, 'opened', opened))
      FROM ended WHERE kind = 'group' AND limits IS NOT NULL) AS groups`,
)

interface Answer {
  ended: AttemptId[] | null
  done: number[] | null
  gathers: number
  ready: number
  gates: boolean
  queues: QueueLimit[] | null
  groups: Settled["groups"] | null
}

/** Of each end. */
export const edgesOfEnds = (ends: readonly End[], compiled: (versionId: number) => CompiledWorkflow): Edge[][] =>
  ends.map(({ held, status, skip }) => {
    if (isJobRow(held.runSeq)) return []
    const scope = { id: held.runId, private: held.private, rootRunId: held.rootRunId }
    return edgesOf(compiled(held.versionId), scope, held, upstreamEnd(status, skip))
  })

export const endRows = async (
  tx: SqlRunner,
  now: string | null,
  ends: readonly End[],
  compiled: (versionId: number) => CompiledWorkflow,
  gateLanes: readonly string[],
  queues: readonly string[],
  careful: boolean,
  taker: Claimer | null,
): Promise<Settled> => {
  const edges = edgesOfEnds(ends, compiled)
  if (!careful && ends.every((end) => isPlain(end, compiled)))
    return succeedRows(tx, now, ends, edges, compiled, gateLanes, queues, taker)
  const [answer] = await tx.run<Answer>(END, [
    now,
    arrayParam(ends.map((end) => end.held.row)),
    arrayParam(ends.map((end) => end.held.attemptId)),
    arrayParam(ends.map((end) => end.from)),
    arrayParam(ends.map((end) => end.status)),
    arrayParam(ends.map((end) => end.skip)),
    arrayParam(ends.map((end) => end.outcome)),
    textArrayParam(ends.map((end) => end.output[0])),
    textArrayParam(ends.map((end) => end.output[1])),
    arrayParam(ends.map((end) => end.output[2])),
    textArrayParam(ends.map((end) => end.error)),
    arrayParam(ends.map((end) => end.exitCode)),
    textArrayParam(ends.map((end) => end.usage)),
    textArrayParam(ends.map((end) => end.externalId)),
    arrayParam(ends.map((end) => end.startedAt)),
    arrayParam(ends.map((end) => end.finishedAt)),
    arrayParam(edges.map((list) => list[0]?.end ?? null)),
    textArrayParam(edges.map((list) => (list.length === 0 ? null : arrayParam(list.map((edge) => edge.node))))),
    textArrayParam(edges.map((list) => textArrayParam(list.map((edge) => edge.reroute)))),
    anyParam(new Set(ends.map((end) => end.held.runSeq))),
    anyTextParam(gateLanes),
    anyTextParam(queues),
  ])
  const { ended, done, gathers, ready, gates, queues: limits, groups } = answer!
  return {
    ended: new Set(ended),
    done: done ?? [],
    ready: ready + gathers,
    gates: gates || gathers > 0,
    queues: limits ?? [],
    groups: groups ?? [],
    onward: [],
  }
}

const NOTHING: OutputColumns = [null, null, null]

/** What a change makes of a row, when it ends it; null when it does not. */
export const endOf = (held: InFlightAttempt, step: AttemptChanges, change: FinalChange): End | null => {
  const gate = { held, from: "gate", skip: null, outcome: null, exitCode: null, usage: null, externalId: null } as const
  const untimed = { startedAt: null, finishedAt: null }
  switch (change.kind) {
    case "finish": {
      const { result } = change
      return {
        held,
        from: "live",
        status: change.status,
        skip: null,
        outcome: result.state,
        output: outputColumns(result.output),
        error: result.error ?? null,
        exitCode: result.exitCode ?? null,
        usage: result.usage === undefined ? null : JSON.stringify(result.usage),
        externalId: result.externalId ?? step.start?.externalId ?? null,
        startedAt: result.startedAt ?? step.start?.at ?? null,
        finishedAt: result.finishedAt,
      }
    }
    case "skip":
      return { ...gate, ...untimed, status: "skipped", skip: change.skipReason, output: NOTHING, error: change.reason }
    case "fail":
      return { ...gate, ...untimed, status: "failed", output: NOTHING, error: change.error }
    case "reuse":
      return { ...gate, ...untimed, status: "success", output: outputColumns(change.output), error: null }
    case "gather": {
      const { status, output, error } = change
      return { ...gate, ...untimed, from: "container", status, output: outputColumns(output), error: error ?? null }
    }
    case "retry":
    case "wait":
    case "enqueue":
    case "release":
      return null
    default:
      return change satisfies never
  }
}
