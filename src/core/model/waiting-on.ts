// What a running task waits on while it holds no slot: a time, a person, a child run, work elsewhere, or a condition. Stored with the row;
// times are durations since the attempt began, so that they do not depend on a server's clock.

import type { Json } from "../values/json.ts"
import { formatDuration } from "../values/quantities.ts"

/** Executors that only wait. The gate begins their attempts; nothing is launched. */
export const WAITING_EXECUTORS = ["sleep", "wait", "approval", "workflow"] as const
export type WaitingExecutor = (typeof WAITING_EXECUTORS)[number]

export const isWaitingExecutor = (name: string): name is WaitingExecutor =>
  (WAITING_EXECUTORS as readonly string[]).includes(name)

/** Maximum nesting of sub-workflows. The run at the top has depth 0. */
export const MAX_SUBWORKFLOW_DEPTH = 8

/** A request that is repeated until its response says that the deferred work is done. */
export interface Poll {
  url: string
  method: string
  /** Secrets are resolved when the request is sent. */
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
  /** `runId`: id of the child run; `made` once that run exists. */
  | { kind: "workflow"; workflow: string; runId: string; made?: true }
  /**
   * `since`: milliseconds from the start of the attempt to the deferral. `errors`: consecutive polls without a response. `last`: what the
   * last poll gave, for the error of a timeout.
   */
  | { kind: "poll"; poll: Poll; since: number; errors: number; last?: string }
  | { kind: "callback"; since: number; timeoutMs?: number }
  /** A durable function that is suspended until its time has come or an event arrives. `message`: what it waits for. */
  | { kind: "resume"; message: string }

  /**
   * A condition that is checked every `everyMs` after the start of the attempt. `last`: what the last check of a command saw, which was
   * just made if `checked` is set. What checks of other conditions see is the progress of the attempt.
   */
  | { kind: "condition"; condition: string; everyMs: number; last?: string; checked?: true }

/** The condition of a wait with a command. */
export const COMMAND_CONDITION = "its command to succeed"

/** Returns the milliseconds until the next check of a condition, after `elapsedMs` of the attempt. */
export const untilNextCheck = (everyMs: number, elapsedMs: number): number => everyMs - (elapsedMs % everyMs)

export type WaitKind = WaitingOn["kind"]

/** Public part of `WaitingOn`: no headers, no bodies. */
export interface WaitingView {
  kind: WaitKind
  message?: string | undefined
  default?: "approve" | "reject" | undefined
  workflow?: string | undefined
  run_id?: string | undefined
  url?: string | undefined
  /** Condition that a wait is for, its interval, and what the last check saw. */
  condition?: string | undefined
  every_ms?: number | undefined
  last?: string | undefined
  /** Instant at which the task is resumed without an event, or its condition is checked again; null: never. */
  until: string | null
}

/** A row that waits, as far as `waitingOf` reads it. */
interface WaitingRow {
  waitingOn?: WaitingOn | null
  resumeAt?: string | null
  startedAt: string | null
  progress?: { details: Json } | null
}

/** Returns the view of a row that waits; null for any other row. `now`: for the time of the next check. */
export const waitingOf = ({ waitingOn, resumeAt = null, startedAt, progress }: WaitingRow, now: number): WaitingView | null => {
  if (waitingOn == null) return null
  if (waitingOn.kind !== "condition" || startedAt === null) return waitingView(waitingOn, resumeAt)
  const seen = typeof progress?.details === "string" ? { last: progress.details } : {}
  const next = now + untilNextCheck(waitingOn.everyMs, Math.max(0, now - Date.parse(startedAt)))
  return waitingView({ ...waitingOn, ...seen }, resumeAt ?? new Date(next).toISOString())
}

export const waitingView = (waitingOn: WaitingOn, until: string | null): WaitingView => {
  switch (waitingOn.kind) {
    case "sleep":
    case "callback":
      return { kind: waitingOn.kind, until }
    case "resume":
      return { kind: "resume", message: waitingOn.message, until }
    case "approval": {
      const { message, default: fallback } = waitingOn
      return { kind: "approval", ...(message !== undefined && { message }), ...(fallback && { default: fallback }), until }
    }
    case "workflow":
      return { kind: "workflow", workflow: waitingOn.workflow, ...(waitingOn.made && { run_id: waitingOn.runId }), until }
    case "poll":
      return { kind: "poll", url: waitingOn.poll.url, until }
    case "condition": {
      const { condition, everyMs: every_ms, last, checked } = waitingOn
      return { kind: "condition", condition, every_ms, ...(last !== undefined && { last }), until: checked ? null : until }
    }
    default:
      return waitingOn satisfies never
  }
}

/**
 * Returns true when a `wait` of a row that waits already emits an event. Only sub-workflows have news then (the child run); polls would
 * emit one event per request.
 */
export const renewalEmitsEvent = ({ kind }: WaitingOn): boolean => kind === "workflow"

/** Describes the wait in one line. */
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
    case "condition": {
      const next =
        waiting.until === null ? "" : ` (checked every ${formatDuration(waiting.every_ms ?? 0)}, next at ${waiting.until})`
      return `waits for ${waiting.condition ?? ""}${next}${waiting.last === undefined ? "" : `; the last check: ${waiting.last}`}`
    }
    case "resume":
      return `${waiting.message ?? "is suspended"}${until}`
    default:
      return waiting.kind satisfies never
  }
}
