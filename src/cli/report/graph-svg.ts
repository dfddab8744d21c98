// The graph of a run: tasks in columns by their distance from the first tasks. A group is one box.

import { escape, type ReportedRun, statusClass } from "./markup.ts"
import { truncate } from "../terminal/text.ts"
import type { RunGraph } from "../../protocol/client/client.ts"

const BOX = { width: 170, height: 34, gapX: 50, gapY: 14 }

type GraphTask = RunGraph["tasks"][number]

export const graphSvg = ({ graph }: ReportedRun): string => {
  const tasks = graph.tasks.filter(({ group, hook }) => group === null && hook === null)
  const columns = columnsOf(tasks)
  const place = new Map<string, { x: number; y: number }>()
  const filled: number[] = []
  for (const { name } of tasks) {
    const column = columns.get(name)!
    const row = filled[column] ?? 0
    filled[column] = row + 1
    place.set(name, { x: column * (BOX.width + BOX.gapX) + 2, y: row * (BOX.height + BOX.gapY) + 2 })
  }
  const width = filled.length * (BOX.width + BOX.gapX)
  const height = Math.max(...filled, 1) * (BOX.height + BOX.gapY)
  const edges = tasks.flatMap(({ name, depends_on }) =>
    depends_on.flatMap((above) => {
      const [from, to] = [place.get(above), place.get(name)!]
      if (from === undefined) return []
      const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2]
      const bend = BOX.gapX / 2
      return [`<path class="edge" d="M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}"/>`]
    }),
  )
  const boxes = tasks.map(({ name, status, fan_out }) => {
    const { x, y } = place.get(name)!
    const title = `${name}: ${status}${fan_out === null ? "" : `, for each of ${fan_out}`}`
    return `<g><title>${escape(title)}</title><rect class="box ${statusClass(status)}" x="${x}" y="${y}" width="${BOX.width}" height="${BOX.height}" rx="5"/><text x="${x + 10}" y="${y + 21}">${escape(truncate(fan_out === null ? name : `${name} ×`, 22))}</text></g>`
  })
  return `<svg width="${width}" height="${height}" role="img" aria-label="Graph of the workflow">${[...edges, ...boxes].join("")}</svg>`
}

/** Returns the length of the longest path to each task. */
const columnsOf = (tasks: readonly GraphTask[]): Map<string, number> => {
  const byName = new Map(tasks.map((task) => [task.name, task]))
  const columns = new Map<string, number>()
  // Upstream tasks may come later in the list, so each pass settles at least one more column.
  for (let changed = true; changed;) {
    changed = false
    for (const { name, depends_on } of tasks) {
      const column = Math.max(
        0,
        ...depends_on.filter((above) => byName.has(above)).map((above) => (columns.get(above) ?? 0) + 1),
      )
      changed ||= columns.get(name) !== column
      columns.set(name, column)
    }
  }
  return columns
}
