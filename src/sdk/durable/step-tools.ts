// What a durable function can do. Each step is recorded by its name; a function that is resumed or retried runs again from its beginning
// and gets the recorded results.

import type { FunctionLog } from "../../core/model/function.ts"
import type { ApprovalAnswer } from "../../core/model/function-signals.ts"
import type { RetryOptions, SignalDefinition, TaskDefinition, WorkflowDefinition } from "../definitions.ts"
import type { Duration } from "../duration.ts"
import type { SqlTransaction } from "../../store/contract/transactions.ts"

export interface StepContext {
  /** Counts from 1. */
  readonly attempt: number
  /** Aborted when the function is cancelled or its time is over; in a step that begins after a cancel, when the grace period is over. */
  readonly signal: AbortSignal
  readonly log: FunctionLog
}

export interface ApprovalOptions {
  /** Message to those who answer: the subject of the approval. */
  message?: string
  /** Time after which `default` applies. Default: without limit. */
  timeout?: Duration
  /** The answer when nobody has answered in time. Default: reject. */
  default?: "approve" | "reject"
}

export interface StepOptions {
  retry?: RetryOptions
}

export interface StepTools {
  /** Id of the run. */
  readonly id: string
  readonly log: FunctionLog
  /**
   * Aborted when the function is cancelled: its steps under way, or else the next one, reject with a CancelledError, and steps in `finally`
   * blocks run within the grace period.
   */
  readonly signal: AbortSignal
  /** Runs code and records its result. The code runs at least once. */
  run<Result>(name: string, code: (context: StepContext) => Result | Promise<Result>, options?: StepOptions): Promise<Result>
  /**
   * Runs code with a transaction and records its result in the same commit: what the code writes with `tx` happens exactly once. On
   * Postgres `tx` is a client of pg.
   */
  tx<Result>(
    name: string,
    code: (tx: SqlTransaction, context: StepContext) => Result | Promise<Result>,
    options?: StepOptions,
  ): Promise<Result>
  /** Suspends the function without a slot. */
  sleep(name: string, duration: Duration): Promise<void>
  /** Waits for a signal, also one that was sent before. Returns null at the timeout. */
  waitFor<Payload>(signal: SignalDefinition<Payload>, options?: { timeout?: Duration }): Promise<Payload | null>
  /** Waits until somebody approves or rejects, as tasks with `executor: approval` do. */
  approval(name: string, options?: ApprovalOptions): Promise<ApprovalAnswer>
  /** Starts a job or another durable function, and waits for its result. */
  call<Input, Output>(
    definition: TaskDefinition<Input, Output> | WorkflowDefinition<Input, Output>,
    input: NoInfer<Input>,
    options?: { name?: string },
  ): Promise<Output>
  /** Returns the time of the first call, also when the function runs again. */
  now(): Date
  /** Returns a random number from 0 to 1, the same when the function runs again. */
  random(): number
  /** Returns true for functions that reach this point for the first time with this code, and false for those that passed it before. */
  patch(name: string): boolean
}
