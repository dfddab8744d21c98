// The timeline of a run: one bar per task or instance, from its start to its end.

import { escape, type ReportedRun, statusClass } from "./markup.ts"
import { taskLabel } from "../progress/event-text.ts"
import { duration, truncate } from "../terminal/text.ts"

const ROW = 22
const NAMES = 240
const WIDTH = 1000
const TICKS = 5

export const timelineSvg = ({ run, tasks, now }: ReportedRun): string => {
  const started = tasks.filter((task) => task.started_at !== null)
  if (started.length === 0) return "<p>No task has started.</p>"
  const endOf = (at: string | null): number => (at === null ? now : Date.parse(at))
  const from = Math.min(...started.map((task) => Date.parse(task.started_at!)))
  const to = Math.max(endOf(run.finished_at), ...started.map((task) => endOf(task.finished_at)), from + 1)
  const x = (at: number): number => NAMES + ((at - from) / (to - from)) * (WIDTH - NAMES - 60)
  const height = started.length * ROW + 30
  const ticks = Array.from({ length: TICKS + 1 }, (_, i) => from + ((to - from) * i) / TICKS).map(
    (at) =>
      `<line class="edge" x1="${px(x(at))}" x2="${px(x(at))}" y1="20" y2="${height}" opacity=".3"/><text x="${px(x(at))}" y="14">${duration(at - from)}</text>`,
  )
  const bars = started.map((task, i) => {
    const [begin, end] = [Date.parse(task.started_at!), endOf(task.finished_at)]
    const y = 26 + i * ROW
    const label = taskLabel(task.name, task.path, task.label)
    const width = Math.max(2, x(end) - x(begin))
    const title = `${label}: ${task.status}, ${duration(end - begin)}`
    return `<g><title>${escape(title)}</title><text x="0" y="${y + 13}">${escape(truncate(label, 36))}</text><rect class="${statusClass(task.status)}" x="${px(x(begin))}" y="${y}" width="${px(width)}" height="16" rx="2"/></g>`
  })
  return `<svg width="${WIDTH}" height="${height}" role="img" aria-label="Timeline of the run">${[...ticks, ...bars].join("")}</svg>`
}

const px = (value: number): string => value.toFixed(1)
