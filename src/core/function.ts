// What a function of an `executor: node` task is called with.

import type { Json, JsonObject } from "./json.ts"

export interface FunctionLog {
  /** The same as `info`. */
  (...said: unknown[]): void
  debug(...said: unknown[]): void
  info(...said: unknown[]): void
  warn(...said: unknown[]): void
  error(...said: unknown[]): void
}

export interface FunctionContext {
  readonly runId: string
  readonly taskId: string
  readonly taskName: string
  readonly workflowName: string
  /** From 1. */
  readonly attempt: number
  readonly parallelIndex: number | null
  readonly parallelCount: number | null
  readonly logicalDate: string | null
  /** Lines in the attempt's log; those of `warn` and `error` on stderr. */
  readonly log: FunctionLog
  /** Aborted when the task is cancelled or has run out of time. Who never asks for it is ended at once then. */
  readonly signal: AbortSignal
  /** Says that the function is alive and, if it likes, with what it is busy. */
  heartbeat(details?: Json): void
  /** How far it is, 0 to 1. */
  progress(fraction: number, details?: Json): void
}

export type TaskFunction<Input = JsonObject, Output = unknown> = (
  input: Input,
  context: FunctionContext,
) => Output | Promise<Output>
