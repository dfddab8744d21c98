// What is stuck, for the report of a failure: runs and tasks that have not ended, limits in use, engines.

import { hasEnded } from "./model.ts"
import type { World } from "../simulation.ts"

const ROWS = 8

export const dump = (world: World): string[] => {
  const lines: string[] = []
  for (const life of world.lives) {
    if (!life.alive) continue
    lines.push(
      `engine ${life.name}: started ${life.started}, calls ${life.calls}, failing ${life.failing}, draining ${life.draining}`,
    )
  }
  for (const run of world.tables.runs()) {
    const flags = [run.paused ? "paused" : "", run.cancelling ?? "", run.private ? "private" : ""].filter((flag) => flag !== "")
    lines.push(
      `run ${world.labelOf(run.id)} (${run.workflow}) ${run.status} ${flags.join(" ")} open ${run.open_tasks} hooks ${run.hooks_pending}`,
    )
    const open = world.tables.tasksOf(run.seq).filter((row) => !hasEnded(row))
    for (const row of open.slice(0, ROWS)) {
      const { name } = world.simOf(run.workflow, row.node).node
      const facts = {
        row: row.id,
        left: row.upstream_pending,
        parked: row.parked,
        held: row.holder,
        due: row.available_at,
        lane: row.lane,
      }
      lines.push(`  ${name}[${row.path}] ${row.kind} ${row.status} #${row.attempt} ${JSON.stringify(facts)}`)
    }
    if (open.length > ROWS) lines.push(`  and ${open.length - ROWS} more`)
  }
  for (const limit of world.tables.limits()) {
    if (limit.used > 0) lines.push(`limit ${limit.id} ${limit.key}: ${limit.used} of ${limit.cap}`)
  }
  return lines
}
