// Groups whose timeout has passed: tasks in them may be stopped although nobody stopped the run.

import type { TaskRecord } from "../database/table-reader.ts"
import type { Simulation } from "../simulation.ts"

/** Returns whether a group was open for its timeout and `slackMs` more. */
export const hasTimedOut = (simulation: Simulation, group: TaskRecord, slackMs = 0): boolean => {
  const { timeoutMs } = simulation.simNodeOf(simulation.tables.runBySeq(group.run_seq).workflow, group.node).node
  if (group.kind !== "group" || timeoutMs === null || group.started_at === null) return false
  const { clock, scenario } = simulation
  // A group may have timed out before the clock was set back.
  const isOpen = group.finished_at === null || scenario.clockSteps.some(({ ms }) => ms < 0)
  const until = isOpen ? clock.latest : Date.parse(group.finished_at!)
  return until - Date.parse(group.started_at) >= timeoutMs + slackMs
}

/** Returns whether `hasTimedOut` holds for one of the groups around a row. */
export const isInTimedOutGroup = (simulation: Simulation, row: Pick<TaskRecord, "parent_id">, slackMs = 0): boolean => {
  for (let id = row.parent_id; id !== null;) {
    const container = simulation.tables.taskByRow(id)!
    if (hasTimedOut(simulation, container, slackMs)) return true
    id = container.parent_id
  }
  return false
}
