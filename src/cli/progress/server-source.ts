// A ProgressSource over a server: last lines come with the event stream, tails are requested.

import { logKey } from "./frame.ts"
import type { ProgressSource } from "./source.ts"
import { TAIL_LINES } from "./summary.ts"
import { type Client, type LogEvent, collect } from "../../protocol/client/client.ts"

const TAIL_BYTES = 16_384
const LINE_BYTES = 1024

export interface ServerProgressSource extends ProgressSource {
  /** Records a log line of the event stream. */
  addLogLine(line: LogEvent): void
}

export const serverSource = (client: Client, runId: string): ServerProgressSource => {
  const last = new Map<string, Pick<LogEvent, "attempt" | "line">>()
  const requested = new Set<string>()
  const readTail = async (task: string, path: string, bytes: number): Promise<string[]> => {
    const place = { runId, task, ...(path !== "" && { path }) }
    return (await collect(client.readLogLines(place, { offset: -bytes }))).map(({ line }) => line)
  }
  return {
    addLogLine: (line) => void last.set(logKey(line.task, line.path), line),
    pastDurations: async () => new Map(),
    // Lines from before the stream began are not in it: they are requested once per attempt.
    async lastLine(task, path, attempt) {
      const key = logKey(task, path)
      const known = last.get(key)
      if (known?.attempt === attempt) return known.line
      if (requested.has(`${key}/${attempt}`)) return null
      requested.add(`${key}/${attempt}`)
      const line = (await readTail(task, path, LINE_BYTES)).at(-1)
      if (line !== undefined && last.get(key)?.attempt !== attempt) last.set(key, { attempt, line })
      return line ?? null
    },
    tailLines: async (task, path) => (await readTail(task, path, TAIL_BYTES)).slice(-TAIL_LINES),
  }
}
