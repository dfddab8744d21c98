// Describes, for the report of a failure, what is unfinished: processes, runs, tasks and used limits.

import type { Simulation } from "../simulation.ts"
import { hasFinished } from "./model.ts"

const MAX_TASKS = 8

export const describeState = (simulation: Simulation): string[] => {
  const lines: string[] = []
  for (const { name, alive, started, calls, failing, draining } of simulation.processes) {
    if (alive) lines.push(`engine ${name}: started ${started}, calls ${calls}, failing ${failing}, draining ${draining}`)
  }
  for (const run of simulation.tables.runs()) {
    const flags = [run.paused ? "paused" : "", run.cancelling ?? "", run.private ? "private" : ""].filter((flag) => flag !== "")
    const counters = `open ${run.open_tasks} hooks ${run.hooks_pending}`
    lines.push(`run ${simulation.labelOf(run.id)} (${run.workflow}) ${run.status} ${flags.join(" ")} ${counters}`)
    const open = simulation.tables.tasksOf(run.seq).filter((row) => !hasFinished(row))
    for (const row of open.slice(0, MAX_TASKS)) {
      const { name } = simulation.simNodeOf(run.workflow, row.node).node
      const { id, upstream_pending, parked, holder, available_at, lane } = row
      const fields = JSON.stringify({ id, upstream_pending, parked, holder, available_at, lane })
      lines.push(`  ${name}[${row.path}] ${row.kind} ${row.status} #${row.attempt} ${fields}`)
    }
    if (open.length > MAX_TASKS) lines.push(`  and ${open.length - MAX_TASKS} more`)
  }
  for (const limit of simulation.tables.limits()) {
    if (limit.used > 0) lines.push(`limit ${limit.id} ${limit.key}: ${limit.used} of ${limit.cap}`)
  }
  return lines
}
