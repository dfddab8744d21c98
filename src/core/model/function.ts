// Types of functions that tasks call, and the rule for names of registered functions (`register`, `startWorker`).

import type { Json, JsonObject } from "../values/json.ts"

/** Name of the step that a `txTask` records, in the transaction of its handler. */
export const TX_TASK_STEP = "transaction"

/** Value of `executor` for a task that calls a registered function, named by `function`. */
export const FUNCTION_EXECUTOR = "function"

/** Name of the only task of a durable function, and of a job of the SDK. */
export const MAIN_TASK = "main"

/** The version after "@" pins work to programs that have this version of the function (`version` of the SDK). */
const FUNCTION_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}(@[A-Za-z0-9_.-]{1,64})?$/

export const isFunctionName = (name: string): boolean => FUNCTION_NAME.test(name)

export const FUNCTION_NAME_HINT = 'use at most 64 letters, digits, "_", "." and "-", beginning with a letter or "_"'

export interface FunctionLog {
  /** Short for `info`. */
  (...values: unknown[]): void
  debug(...values: unknown[]): void
  info(...values: unknown[]): void
  warn(...values: unknown[]): void
  error(...values: unknown[]): void
}

export interface FunctionContext {
  readonly runId: string
  readonly taskId: string
  readonly taskName: string
  readonly workflowName: string
  /** Counts from 1. */
  readonly attempt: number
  readonly parallelIndex: number | null
  readonly parallelCount: number | null
  readonly logicalDate: string | null
  /** Variables of the task: `env` of the definition, including secrets, and ORK_*. */
  readonly env: { readonly [name: string]: string }
  /** Writes lines to the attempt's log; `warn` and `error` write to stderr. */
  readonly log: FunctionLog
  /**
   * Aborted when the task is cancelled or times out. A function in a worker process that never reads the signal is killed at once
   * instead.
   */
  readonly signal: AbortSignal
  /** Reports that the function is alive, optionally with what it is doing. */
  heartbeat(details?: Json): void
  /** Reports the completed fraction, 0 to 1. */
  progress(fraction: number, details?: Json): void
}

export type TaskFunction<Input = JsonObject, Output = unknown> = (
  input: Input,
  context: FunctionContext,
) => Output | Promise<Output>

/** A function with any input type. Declared as a method, because method parameters are bivariant. */
export type AnyFunction = { call(input: unknown, context: FunctionContext): unknown }["call"]

/** Returns the executor that runs functions of a file, by its extension; null if no executor does. */
export const languageOf = (file: string): "python" | "node" | null =>
  file.endsWith(".py") ? "python" : /\.[cm]?[jt]s$/.test(file) ? "node" : null

/** Returns the arguments with which `ork` calls a function inside a container or job. */
export const functionArgv = (file: string, name: string | undefined): string[] => [
  "ork",
  "exec",
  "--file",
  file,
  ...(name === undefined ? [] : ["--function", name]),
]
