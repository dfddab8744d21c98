// Converts entries of Cloud Logging to lines, and builds the filter that requests them. Pure.
// https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry

import type { Json } from "../../core/values/json.ts"
import { iso } from "../../core/model/ports.ts"
import type { LogStream } from "../../objects/logs/log-index.ts"

export interface LogEntry {
  logName?: string
  timestamp?: string
  receiveTimestamp?: string
  insertId?: string
  textPayload?: string
  /** A line that is a JSON object, without the fields that Cloud Logging interprets. */
  jsonPayload?: { [field: string]: Json }
  labels?: { [name: string]: string }
  resource?: { labels?: { [name: string]: string } }
}

export interface EntryLine {
  stream: LogStream
  text: string
  at: number
  /** Time at which Cloud Logging received it. */
  received: number
  /** Sorts lines by time, and identifies them. */
  order: string
  /** The container that wrote it; null when the job has only one. */
  container: string | null
}

const EXECUTION_LABEL = "run.googleapis.com/execution_name"

/** Returns the key of the execution that wrote the entry. */
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

/** Pads the fraction of a second, which comes without trailing zeros, so that timestamps sort as text. */
const padded = (timestamp: string): string =>
  timestamp.replace(/(?:\.(\d+))?Z$/, (_, fraction: string = "") => `.${fraction.padEnd(9, "0")}Z`)

export interface LogCursor {
  execution: string
  /** Requests entries that were received since then, by Google's clock. */
  receivedSince: number
}

/** Returns the filter of a search. `from`: time of the oldest possible entry, which keeps the search short. */
export const filterOf = (cursors: readonly LogCursor[], from: number): string => {
  const groups = Map.groupBy(cursors, ({ receivedSince }) => receivedSince)
  const parts = [...groups].map(([receivedSince, all]) => {
    const names = all.map(({ execution }) => `"${execution}"`).join(" OR ")
    return `(labels."${EXECUTION_LABEL}"=(${names}) AND receiveTimestamp>="${iso(receivedSince)}")`
  })
  return [
    'resource.type="cloud_run_job"',
    '(log_id("run.googleapis.com/stdout") OR log_id("run.googleapis.com/stderr"))',
    `timestamp>="${iso(from)}"`,
    `(${parts.join(" OR ")})`,
  ].join(" AND ")
}
