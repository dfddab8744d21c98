// The formats in which a log is sent, by the Accept header: raw bytes, JSON lines or server-sent events.

import type { LogLine } from "../../objects/logs/task-log.ts"

const RAW_TYPE = "text/plain; charset=utf-8"
export const NDJSON_TYPE = "application/x-ndjson"
export const SSE_TYPE = "text/event-stream"

export type LogFormat = "raw" | "ndjson" | "sse"

export const formatOf = (accept: string | undefined): LogFormat => {
  if (accept?.includes(NDJSON_TYPE)) return "ndjson"
  return accept?.includes(SSE_TYPE) ? "sse" : "raw"
}

export const CONTENT_TYPES = { raw: RAW_TYPE, ndjson: NDJSON_TYPE, sse: SSE_TYPE } as const satisfies Record<LogFormat, string>

export const lineShape = ({ at, stream, line, more }: LogLine) => ({
  at: new Date(at).toISOString(),
  stream,
  line,
  ...(more === true && { more }),
})

export const lineText = (line: LogLine, format: "ndjson" | "sse"): string => {
  const text = JSON.stringify(lineShape(line))
  return format === "ndjson" ? `${text}\n` : `event: log\ndata: ${text}\n\n`
}
