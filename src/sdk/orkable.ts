// What a program does with work: enqueue, find, signal and schedule it. Implemented by the engine in this process and by the client of a
// server.

import type { Definition, SignalDefinition, TaskDefinition, WorkflowDefinition } from "./definitions.ts"
import type { Duration } from "./duration.ts"
import type { EventOptions, OrkEvent, Progress } from "./events.ts"
import type { GraphDefinition } from "./graph/graph.ts"
import type { Json } from "../core/values/json.ts"

export interface EnqueueOptions {
  /** A second job of the same task with this key is not created. */
  key?: string
  /** Behaviour when the key is taken. Default: the existing job is returned, with `created: false`. */
  onConflict?: "existing" | "replace" | "error"
  /** Time until the job may start. */
  delay?: Duration
  /** Instant from which the job may start. */
  at?: Date
  /** 1 to 10. Default: that of the task. */
  priority?: number
}

/**
 * A transaction on the database of Ork: a client of pg, an adapter of `ork/tx`, the `tx` of a function, or a DatabaseSync of
 * node:sqlite.
 */
export type Transaction =
  | { query(text: string): Promise<{ rows: unknown[] }> }
  | { exec(sql: string): void; prepare(sql: string): unknown }

/** Options of a job that is created in a transaction of the user. */
export interface TransactionOptions extends Omit<EnqueueOptions, "onConflict"> {
  /** The job exists when this transaction commits, and never when it rolls back. */
  tx: Transaction
  onConflict?: "existing" | "error"
}

export type JobState = "pending" | "ready" | "running" | "completed" | "failed" | "blocked"
export type RunState = "pending" | "running" | "success" | "failed" | "cancelled"

export interface ResultOptions {
  /** Time to wait. Default: without limit. */
  timeout?: Duration
  signal?: AbortSignal
}

export interface RetryWorkOptions {
  /** Name of a step of a durable function: it and the steps that began after it run again. */
  from?: string
}

/** Work, or its id. */
export type WorkRef = string | Pick<Work<unknown>, "id">

export const idOf = (work: WorkRef): string => (typeof work === "string" ? work : work.id)

/** A job, or a run of a durable function or graph. */
export interface Work<Output> {
  readonly id: string
  /** Name of the task or workflow. */
  readonly name: string
  /** False when the key found existing work. */
  readonly created: boolean
  /** When it was read. */
  readonly status: JobState | RunState
  readonly input: Json
  /** Number of attempts that have started. */
  readonly attempts: number
  readonly error: string | null
  /** The latest progress that the attempt of a job has reported with `context.progress`. */
  readonly progress: Progress | null
  /** Waits for the end. Rejects with a TaskFailedError, a CancelledError or a TimeoutError. */
  result(options?: ResultOptions): Promise<Output>
  cancel(): Promise<void>
  /** Runs failed work again. */
  retry(options?: RetryWorkOptions): Promise<void>
  /** Reads it again. */
  refresh(): Promise<Work<Output>>
}

export interface ListOptions {
  /** A definition, or its name. */
  def: Definition | string
  status?: readonly (JobState | RunState)[]
}

export interface AnswerOptions {
  comment?: string
  /** Number of the step among those of its name, from 0, or the instance of a task in a fan-out. Default: the one that waits. */
  path?: string
}

export interface ScheduleOptions {
  /** IANA time zone. Default: UTC. */
  timezone?: string
  /** Ticks to make up for that passed while no process ran. Default: none. */
  catchup?: "none" | "latest" | "all"
  /** Behaviour when the run of an earlier tick is active. Default: skip. */
  overlap?: "allow" | "skip" | "queue" | "cancel"
}

export type Enqueueable<Input, Output> =
  | TaskDefinition<Input, Output>
  | WorkflowDefinition<Input, Output>
  | GraphDefinition<Input, Output>

export interface Orkable {
  enqueue<Input, Output>(
    definition: Enqueueable<Input, Output>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<Work<Output>>
  /** Creates all of them or none. */
  enqueueAll<Input, Output>(
    definition: TaskDefinition<Input, Output>,
    inputs: readonly NoInfer<Input>[],
    options?: Omit<EnqueueOptions, "key">,
  ): Promise<Work<Output>[]>
  /** Returns null when there is no such job or run. */
  get(id: string): Promise<Work<unknown> | null>
  /** Lists jobs or runs, newest first. */
  list(options: ListOptions): AsyncIterable<Work<unknown>>
  /** Iterates over events of jobs and runs, in the order of their commits, until the iteration or the program ends. */
  events(options?: EventOptions): AsyncGenerator<OrkEvent>
  /** Returns false when a signal with this key was sent before. */
  signal<Payload>(
    run: WorkRef,
    signal: SignalDefinition<Payload>,
    payload: NoInfer<Payload>,
    options?: { key?: string },
  ): Promise<boolean>
  /** Approves what a step of a durable function or a task of a graph waits for. */
  approve(run: WorkRef, name: string, options?: AnswerOptions): Promise<void>
  /** Rejects what a step of a durable function or a task of a graph waits for. */
  reject(run: WorkRef, name: string, options?: AnswerOptions): Promise<void>
  /** Creates or changes a schedule. */
  schedule<Input>(
    name: string,
    cron: string,
    definition: Enqueueable<Input, unknown>,
    input: NoInfer<Input>,
    options?: ScheduleOptions,
  ): Promise<void>
  /** Removes a schedule. */
  unschedule(name: string): Promise<void>
}
