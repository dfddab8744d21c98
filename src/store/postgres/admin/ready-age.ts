// Since when the oldest ready row of a lane has been ready: told from what came before it, since rows do not keep it. The oldest
// run's first ready row, and the first job, stand for all of their lane.

import { arrayParam } from "../connection/array-params.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import type { Workflows } from "../cache/workflows.ts"

/** A lane in which something is ready: its oldest run, and its first job by its row. */
export interface ReadyLane {
  lane: string
  runSeq: number | null
  job: number | null
}

const FIRST_ROW = statement(
  "ready_first",
  `SELECT t.id, t.node, t.parent_id, r.version_id
   FROM (SELECT id FROM ready_queue WHERE lane = :lane AND run_seq = :runSeq::bigint ORDER BY id LIMIT 1) q
   JOIN tasks t ON t.id = q.id JOIN runs r ON r.seq = t.run_seq`,
)

interface Row {
  id: number
  node: number
  parent_id: number | null
  version_id: number
}

const JOB = statement("ready_job", "SELECT updated_at AS since FROM jobs WHERE task_id = :job")

/** Epoch milliseconds. */
export const oldestReady = async (
  session: SqlRunner,
  workflows: Workflows,
  { lane, runSeq, job }: ReadyLane,
): Promise<number | null> => {
  const ofJob = job === null ? [] : pipelined(session.run<{ since: string }>(JOB, { job }))
  const first = runSeq === null ? [] : await session.run<Row>(FIRST_ROW, { lane, runSeq })
  const times = [...(await ofJob)]
  for (const row of first) times.push(...(await readySince(session, workflows, row)))
  const known = times.flatMap(({ since }) => (since === null ? [] : Date.parse(since)))
  return known.length === 0 ? null : Math.min(...known)
}

const SINCE = statement(
  "ready_since",
  `SELECT GREATEST(
       r.started_at,
       (SELECT a.finished_at FROM attempts a WHERE a.task_id = t.id AND a.attempt = t.attempt),
       (SELECT p.started_at FROM tasks p WHERE p.id = t.parent_id),
       (SELECT max(u.finished_at) FROM tasks u WHERE u.run_seq = t.run_seq AND u.node = ANY (:upstreams::int[]) AND u.path = t.path)
     ) AS since
   FROM tasks t JOIN runs r ON r.seq = t.run_seq WHERE t.id = :id`,
)

/** Its last attempt's end, its container's start or its upstreams' end, whichever came last, but not before the run. */
const readySince = async (
  session: SqlRunner,
  workflows: Workflows,
  { id, node, parent_id, version_id }: Row,
): Promise<{ since: string }[]> => {
  const upstream = parent_id === null ? (await workflows.compiled(version_id)).nodes[node]!.upstream : []
  return session.run<{ since: string }>(SINCE, { id, upstreams: arrayParam(upstream) })
}
