// The data of a report, and functions that write parts of its page.

import { printable } from "../terminal/text.ts"
import type { Run, RunGraph, Task } from "../../protocol/client/client.ts"

export interface ReportedRun {
  run: Run
  graph: RunGraph
  /** In the order of the graph. */
  tasks: Task[]
  /** Number of instances that are not in `tasks`. */
  omitted: number
  /** Logs of the latest attempts, by task id. `cut`: earlier lines are left out. */
  logs: ReadonlyMap<string, { text: string; cut: boolean }>
  /** Time zone of the times. */
  zone: string
  /** When the report was made: unfinished tasks end there. */
  now: number
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }

/** Escapes a text for HTML. Control characters other than line breaks and tabs become visible. */
export const escape = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.split("\t").map(printable).join("\t"))
    .join("\n")
    .replaceAll(/[&<>"']/g, (char) => ENTITIES[char]!)

const CLASSES = new Set(["success", "failed", "skipped", "cancelled"])

export const statusClass = (status: string): string => (CLASSES.has(status) ? status : "running")
