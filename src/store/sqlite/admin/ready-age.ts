// Finds since when the oldest ready row of a lane has been ready. Rows do not store this time: it follows from what made the row
// ready. The first ready row of the oldest run represents its lane.

import { ANY_PRIORITY, READY } from "../claim/ready-queue.ts"
import type { StoreContext } from "../tx.ts"

const FIRST_ROW = `
SELECT t.id, t.node, t.path, t.attempt, t.parent_id, r.version_id, r.started_at
FROM runs r CROSS JOIN tasks t INDEXED BY tasks_ready ON t.workflow_id = r.workflow_id AND t.run_seq = r.seq
WHERE r.seq = ?1 AND t.lane = ?2 AND t.${ANY_PRIORITY} AND ${READY.replaceAll(/\b(status|attempt_id|upstream_pending|parked|available_at)\b/g, "t.$1")}
ORDER BY t.id LIMIT 1`

type Row = [number, number, string, number, number | null, number, string | null]

const JOB = "SELECT updated_at FROM jobs WHERE task_id = ?"

/** A lane with ready rows: its oldest run, and the row of its first job. */
export interface ReadyLane {
  lane: string
  runSeq: number | null
  job: number | null
}

/** Returns epoch milliseconds, or null when it is unknown. */
export const oldestReady = (context: StoreContext, { lane, runSeq, job }: ReadyLane): number | null => {
  const times: string[] = []
  if (job !== null) times.push(context.db.get<[string]>(JOB, job)![0])
  const row = runSeq === null ? undefined : context.db.get<Row>(FIRST_ROW, runSeq, lane)
  if (row !== undefined) times.push(readySince(context, runSeq!, row))
  const known = times.filter((time) => time !== "")
  return known.length === 0 ? null : Math.min(...known.map((time) => Date.parse(time)))
}

const LAST_ATTEMPT = "SELECT finished_at FROM attempts WHERE task_id = ? AND attempt = ?"
const CONTAINER = "SELECT started_at FROM tasks WHERE id = ?"
const UPSTREAM = "SELECT finished_at FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

/** Returns the latest of: start of the run, end of the last attempt, start of the container or end of the upstream tasks. */
const readySince = (
  context: StoreContext,
  runSeq: number,
  [id, node, path, attempt, parent, versionId, runStartedAt]: Row,
): string => {
  const times: (string | null | undefined)[] = [runStartedAt]
  if (attempt > 0) times.push(context.db.get<[string | null]>(LAST_ATTEMPT, id, attempt)?.[0])
  if (parent !== null) times.push(context.db.get<[string | null]>(CONTAINER, parent)?.[0])
  else {
    const { upstream } = context.workflows.get(versionId).nodes[node]!
    for (const up of upstream) times.push(context.db.get<[string | null]>(UPSTREAM, runSeq, up, path)?.[0])
  }
  return times.reduce<string>((last, time) => (time !== null && time !== undefined && time > last ? time : last), "")
}
