// What a function of a task is called with, and how one is named that a program registers (`register`, `startWorker`).

import type { Json, JsonObject } from "./json.ts"

/** What `executor` says of a task that calls a registered function: `function` is its name. */
export const FUNCTION_EXECUTOR = "function"

const FUNCTION_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/

export const isFunctionName = (name: string): boolean => FUNCTION_NAME.test(name)

export const FUNCTION_NAME_HINT = 'letters, digits, "_", "." and "-", at most 64, the first a letter or "_"'

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
  /** The variables of the task: `env` of the definition, secrets among them, and ORK_*. */
  readonly env: { readonly [name: string]: string }
  /** Lines in the attempt's log; those of `warn` and `error` on stderr. */
  readonly log: FunctionLog
  /** Aborted when the task is cancelled or has run out of time. In a worker process, who never asks for it is ended at once then. */
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

/** One of many, whose input is its author's matter: declared as a method, so that whatever it takes fits. */
export type AnyFunction = { call(input: unknown, context: FunctionContext): unknown }["call"]
