// Formats events as plain lines, for output without a terminal. Pure.

import type { RunEvent } from "./terminal-state.ts"
import { duration, printable, timeOfDay } from "../terminal/text.ts"
import { waitingText } from "../../core/model/waiting-on.ts"
import type { Progress } from "../../store/contract/store.ts"

/** Formats a task instance as `process[3]` or `group.task[1.2]`, with its label behind. */
export const taskLabel = (task: string, path: string, label: string | null = null): string =>
  path === "" ? task : `${task}[${path}]${label === null || label === path ? "" : ` ${printable(label)}`}`

/** Formats progress as `40%` followed by the details. */
export const progressText = ({ fraction, details }: Progress): string => {
  const percent = fraction === null ? "" : `${Math.round(fraction * 100)}%`
  const text = details === null ? "" : printable(typeof details === "string" ? details : JSON.stringify(details)).slice(0, 200)
  return [percent, text].filter((part) => part !== "").join(" ")
}

/** Returns null for events without a line: a task was queued, or reported its progress. */
export const eventLine = (event: RunEvent): string | null => {
  if (event.status === "dispatched" || event.progress !== undefined) return null
  if (event.type === "task" && event.status === "pending" && event.availableAt === undefined) return null
  const at = Date.parse(event.at)
  const subject = event.type === "run" ? "run" : taskLabel(event.task ?? "", event.path ?? "")
  const parts = [timeOfDay(at), subject]
  if (event.waiting !== undefined) parts.push(printable(waitingText(event.waiting)))
  else if (event.availableAt === undefined) parts.push(event.status)
  else parts.push(`waiting, retry in ${duration(Date.parse(event.availableAt) - at)}`)
  if (event.total !== undefined) parts.push(`(${event.total} instances)`)
  else if (event.attempt !== undefined && event.attempt > 1) parts.push(`(attempt ${event.attempt})`)
  const line = parts.join(" ")
  return event.error === undefined || event.error === "" ? line : `${line}: ${printable(event.error)}`
}
