// Progress without a terminal: one line per change of state that a reader cares about. Pure.

import type { RunEvent } from "./model.ts"
import { duration, printable, timeOfDay } from "../terminal/text.ts"
import { waitingText } from "../../core/model/waiting-on.ts"
import type { Progress } from "../../store/contract/store.ts"

/** `process[3]`, `group.task[1.2]`. */
export const taskLabel = (task: string, path: string): string => (path === "" ? task : `${task}[${path}]`)

/** `40%`, with what was said beside it. */
export const progressText = ({ fraction, details }: Progress): string => {
  const far = fraction === null ? "" : `${Math.round(fraction * 100)}%`
  const said = details === null ? "" : printable(typeof details === "string" ? details : JSON.stringify(details)).slice(0, 200)
  return [far, said].filter((part) => part !== "").join(" ")
}

/** null: not worth a line (a task that was only queued, or how far one is). */
export const plainLine = (event: RunEvent): string | null => {
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
