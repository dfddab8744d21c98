// Groups whose time is over: what lies in one may be stopped, though nobody stopped the run.

import type { TaskRecord } from "../database/table-reader.ts"
import type { World } from "../simulation.ts"

type Row = Pick<TaskRecord, "run_seq" | "parent_id">

/** Whether a group was open for as long as it may be, and `slackMs` more. */
export const isOver = (world: World, group: TaskRecord, slackMs = 0): boolean => {
  const { timeoutMs } = world.simOf(world.tables.runBySeq(group.run_seq).workflow, group.node).node
  if (group.kind !== "group" || timeoutMs === null || group.started_at === null) return false
  const until = group.finished_at === null ? world.clock.now() : Date.parse(group.finished_at)
  return until - Date.parse(group.started_at) >= timeoutMs + slackMs
}

/** Whether one of the groups around it is. */
export const isOverdue = (world: World, row: Row, slackMs = 0): boolean => {
  for (let at = row.parent_id; at !== null;) {
    const above = world.tables.taskByRow(at)!
    if (isOver(world, above, slackMs)) return true
    at = above.parent_id
  }
  return false
}
