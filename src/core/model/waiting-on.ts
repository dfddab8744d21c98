// What a running task waits for while it holds no slot: a time, a person, a child run, or work elsewhere. Stored with its row;
// times are durations since the attempt began, so that they mean the same to every server.

import type { Json } from "./json.ts"

/** Executors whose work is to wait. The gate begins them; they are never launched. */
export const WAITING_EXECUTORS = ["sleep", "approval", "workflow"] as const
export type WaitingExecutor = (typeof WAITING_EXECUTORS)[number]

export const isWaitingExecutor = (name: string): name is WaitingExecutor =>
  (WAITING_EXECUTORS as readonly string[]).includes(name)

/** Sub-workflows of sub-workflows: the run that a person started has depth 0. */
export const MAX_SUBWORKFLOW_DEPTH = 8

/** A question that is asked of another service until it is answered. */
export interface Poll {
  url: string
  method: string
  /** A secret is looked up when it is sent. */
  headers: { [name: string]: string | { secret: string } }
  body?: Json
  everyMs: number
  /** Expressions over `response`. */
  doneWhen: string
  failWhen?: string
  output?: string
  timeoutMs?: number
}

export type WaitingOn =
  | { kind: "sleep"; ms: number }
  | { kind: "approval"; message?: string; default?: "approve" | "reject" }
  /** `runId`: the child's, `made` once there is one. */
  | { kind: "workflow"; workflow: string; runId: string; made?: true }
  /** `since`: how long the attempt had been running when it deferred. `errors`: how often in a row the poll itself failed. */
  | { kind: "poll"; poll: Poll; since: number; errors: number }
  | { kind: "callback"; since: number; timeoutMs?: number }

export type WaitKind = WaitingOn["kind"]

/** What others may see of it: no headers, no bodies. */
export interface WaitingView {
  kind: WaitKind
  message?: string | undefined
  default?: "approve" | "reject" | undefined
  workflow?: string | undefined
  run_id?: string | undefined
  url?: string | undefined
  /** When it goes on by itself; null: never. */
  until: string | null
}

export const waitingView = (waits: WaitingOn, until: string | null): WaitingView => {
  switch (waits.kind) {
    case "sleep":
    case "callback":
      return { kind: waits.kind, until }
    case "approval": {
      const { message, default: fallback } = waits
      return { kind: "approval", ...(message !== undefined && { message }), ...(fallback && { default: fallback }), until }
    }
    case "workflow":
      return { kind: "workflow", workflow: waits.workflow, ...(waits.made && { run_id: waits.runId }), until }
    case "poll":
      return { kind: "poll", url: waits.poll.url, until }
    default:
      return waits satisfies never
  }
}

/** Whether a row that waits on for it has something new to tell: of a sub-workflow the run. The rest would be told at every poll. */
export const isReportedWhenRenewed = ({ kind }: WaitingOn): boolean => kind === "workflow"

/** One line for people. */
export const waitingText = (waiting: WaitingView): string => {
  const until = waiting.until === null ? "" : ` until ${waiting.until}`
  switch (waiting.kind) {
    case "sleep":
      return `sleeps${until}`
    case "approval":
      return `waits for approval${waiting.message === undefined ? "" : `: ${waiting.message}`}`
    case "workflow":
      return `waits for workflow ${waiting.workflow ?? ""}${waiting.run_id === undefined ? "" : ` (run ${waiting.run_id})`}`
    case "poll":
      return `polls ${waiting.url ?? ""}`
    case "callback":
      return `waits for a callback${until}`
    default:
      return waiting.kind satisfies never
  }
}
