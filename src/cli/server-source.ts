// What the watching of a server's run reads beside its events: last lines come with them, tails are asked for.

import { logKey } from "./progress/rows.ts"
import { TAIL_LINES } from "./progress/summary.ts"
import type { RunSource } from "./run-source.ts"
import { type Client, type LogEvent, take } from "../protocol/client.ts"

const TAIL_BYTES = 16_384

export interface ServerSource extends RunSource {
  /** A log line came with the events. */
  see(line: LogEvent): void
}

export const serverSource = (client: Client, runId: string): ServerSource => {
  const last = new Map<string, LogEvent>()
  return {
    see: (line) => void last.set(logKey(line.task, line.path), line),
    pastDurations: async () => new Map(),
    async lastLine(task, path, attempt) {
      const line = last.get(logKey(task, path))
      return line?.attempt === attempt ? line.line : null
    },
    async tail(task, path) {
      const place = { runId, task, ...(path !== "" && { path }) }
      const lines = await take(client.readLogLines(place, { offset: -TAIL_BYTES }))
      return lines.slice(-TAIL_LINES).map(({ line }) => line)
    },
  }
}
