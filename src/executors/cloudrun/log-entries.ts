// Entries of Cloud Logging, as far as a task's log is made of them, and the filter that asks for them. Pure.
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry

import type { Json } from "../../core/model/json.ts"
import { iso } from "../../core/model/ports.ts"
import type { LogStream } from "../../objects/logs/log-chunks.ts"

export interface LogEntry {
  logName?: string
  timestamp?: string
  receiveTimestamp?: string
  insertId?: string
  textPayload?: string
  /** A line that is a JSON object comes as this, without the fields that Logging takes for itself. */
  jsonPayload?: { [field: string]: Json }
  labels?: { [name: string]: string }
  resource?: { labels?: { [name: string]: string } }
}

export interface EntryLine {
  stream: LogStream
  text: string
  at: number
  /** When it reached Logging. */
  received: number
  /** Sorts lines by time, and tells one from all others. */
  order: string
  /** Which container of the job has written it; only told where there are several. */
  container: string | null
}

const EXECUTION_LABEL = "run.googleapis.com/execution_name"

/** Where and as what the execution runs that has written it. */
export const sourceOf = ({ resource, labels }: LogEntry): string =>
  sourceKey(resource?.labels?.["location"] ?? "", labels?.[EXECUTION_LABEL] ?? "")

export const sourceKey = (region: string, execution: string): string => `${region}/${execution}`

export const lineOf = (entry: LogEntry): EntryLine => {
  const { logName = "", timestamp = "", receiveTimestamp = timestamp, insertId = "", jsonPayload, labels } = entry
  return {
    stream: logName.endsWith("stderr") ? "stderr" : "stdout",
    text: entry.textPayload ?? (jsonPayload === undefined ? "" : JSON.stringify(jsonPayload)),
    at: Date.parse(timestamp) || 0,
    received: Date.parse(receiveTimestamp) || 0,
    order: `${padded(timestamp)} ${insertId}`,
    container: labels?.["container_name"] ?? null,
  }
}

/** Fractions of a second come without their last zeros. */
const padded = (timestamp: string): string =>
  timestamp.replace(/(?:\.(\d+))?Z$/, (_, fraction: string = "") => `.${fraction.padEnd(9, "0")}Z`)

export interface Asked {
  execution: string
  /** Only what reached Logging since then, by its own clock. */
  received: number
}

/** `from`: nothing that they have written is older. It keeps the search short. */
export const filterOf = (asked: readonly Asked[], from: number): string => {
  const groups = Map.groupBy(asked, ({ received }) => received)
  const parts = [...groups].map(([received, all]) => {
    const names = all.map(({ execution }) => `"${execution}"`).join(" OR ")
    return `(labels."${EXECUTION_LABEL}"=(${names}) AND receiveTimestamp>="${iso(received)}")`
  })
  return [
    'resource.type="cloud_run_job"',
    '(log_id("run.googleapis.com/stdout") OR log_id("run.googleapis.com/stderr"))',
    `timestamp>="${iso(from)}"`,
    `(${parts.join(" OR ")})`,
  ].join(" AND ")
}
