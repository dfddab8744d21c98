// Finds since when the oldest ready row of a lane has been ready. Rows do not store this time: it follows from what made the row
// ready. The first ready row of the oldest run, and the first job, represent their lane.

import { pipelined, type SqlRunner, statement } from "../connection/statement.ts"
import type { Workflows } from "../cache/workflows.ts"

/** A lane with ready rows: its oldest run, and the row of its first job. */
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

/** Returns epoch milliseconds, or null when it is unknown. */
export const oldestReady = async (
  connection: SqlRunner,
  workflows: Workflows,
  { lane, runSeq, job }: ReadyLane,
): Promise<number | null> => {
  const ofJob = job === null ? [] : pipelined(connection.run<{ since: string }>(JOB, { job }))
  const first = runSeq === null ? [] : await connection.run<Row>(FIRST_ROW, { lane, runSeq })
  const times = [...(await ofJob)]
  for (const row of first) times.push(...(await readySince(connection, workflows, row)))
  const known = times.flatMap(({ since }) => (since === null ? [] : Date.parse(since)))
  return known.length === 0 ? null : Math.min(...known)
}

const SINCE = statement(
  "ready_since",
  `SELECT GREATEST(
       r.started_at,
       (SELECT a.finished_at FROM attempts a WHERE a.task_id = t.id AND a.attempt = t.attempt),
       (SELECT container.started_at FROM tasks container WHERE container.id = t.parent_id),
       (SELECT max(upstream.finished_at) FROM tasks upstream
        WHERE upstream.run_seq = t.run_seq AND upstream.node = ANY (:upstreams::int[]) AND upstream.path = t.path)
     ) AS since
   FROM tasks t JOIN runs r ON r.seq = t.run_seq WHERE t.id = :id`,
)

/** Returns the latest of: start of the run, end of the last attempt, start of the container or end of the upstream tasks. */
const readySince = async (
  connection: SqlRunner,
  workflows: Workflows,
  { id, node, parent_id, version_id }: Row,
): Promise<{ since: string }[]> => {
  const upstream = parent_id === null ? (await workflows.compiled(version_id)).nodes[node]!.upstream : []
  return connection.run<{ since: string }>(SINCE, { id, upstreams: upstream })
}
