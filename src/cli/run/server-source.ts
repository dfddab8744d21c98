// What the watching of a server's run reads beside its events: last lines come with them, tails are asked for.

import { logKey } from "../progress/rows.ts"
import { TAIL_LINES } from "../progress/summary.ts"
import type { RunSource } from "./run-source.ts"
import { type Client, type LogEvent, take } from "../../protocol/client/client.ts"

const TAIL_BYTES = 16_384
const LINE_BYTES = 1024

export interface ServerSource extends RunSource {
  /** A log line came with the events. */
  see(line: LogEvent): void
}

export const serverSource = (client: Client, runId: string): ServerSource => {
  const last = new Map<string, Pick<LogEvent, "attempt" | "line">>()
  const asked = new Set<string>()
  const lines = async (task: string, path: string, bytes: number): Promise<string[]> => {
    const place = { runId, task, ...(path !== "" && { path }) }
    return (await take(client.readLogLines(place, { offset: -bytes }))).map(({ line }) => line)
  }
  return {
    see: (line) => void last.set(logKey(line.task, line.path), line),
    pastDurations: async () => new Map(),
    /** What was written before the stream went live does not come with it: that is asked for, once. */
    async lastLine(task, path, attempt) {
      const key = logKey(task, path)
      const known = last.get(key)
      if (known?.attempt === attempt) return known.line
      if (asked.has(`${key}/${attempt}`)) return null
      asked.add(`${key}/${attempt}`)
      const line = (await lines(task, path, LINE_BYTES)).at(-1)
      if (line !== undefined && last.get(key)?.attempt !== attempt) last.set(key, { attempt, line })
      return line ?? null
    },
    tail: async (task, path) => (await lines(task, path, TAIL_BYTES)).slice(-TAIL_LINES),
  }
}
