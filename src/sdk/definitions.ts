// Definitions: tasks, durable functions and signals that a program declares once and then enqueues, runs and sends.

import { checkFunction } from "../executors/registry.ts"
import { type FunctionContext, isFunctionName } from "../core/model/function.ts"
import { isReservedSignal, SIGNAL_NAME_HINT } from "../core/model/function-signals.ts"
import { QUEUE_NAME, QUEUE_NAME_HINT } from "../core/model/names.ts"
import { checkCount, checkOneOf, checkPriority, checkText } from "./checks.ts"
import { type Duration, toMs } from "./duration.ts"
import { checkNames, LIMIT, RETRY, TASK, WORKFLOW } from "./option-names.ts"
import type { RetryPolicy } from "../core/model/workflow.ts"
import { omitUndefined } from "../core/values/omit-undefined.ts"
import { checkSchema, type InputOf, type OutputOf, type StandardSchema } from "./schema.ts"
import type { StepTools } from "./durable/step-tools.ts"
import type { AnyGraph } from "./graph/graph.ts"
import type { SqlTransaction } from "../store/contract/transactions.ts"

export interface RetryOptions {
  /** Number of attempts in all, 1 to 100. Default: 3. */
  attempts?: number
  /** Delay before the second attempt. Default: 1s. */
  delay?: Duration
  /** Default: 5m. */
  maxDelay?: Duration
  /** How the delay grows. Default: exponential. */
  backoff?: RetryPolicy["backoff"]
  /** Waits 50 to 100 % of each delay. Default: false. */
  jitter?: boolean
}

export interface LimitOptions {
  /** Number of jobs of this task that run at once, in all processes. */
  concurrency?: number
  /** Number of jobs of one group that run at once. Requires `group`. */
  perGroup?: number
  /** Number of starts in a period, such as [100, "1s"]. */
  rate?: readonly [starts: number, period: Duration]
}

export interface TaskOptions<Schema extends StandardSchema | undefined, Input> {
  /** Schema of the input, checked when a job is enqueued and when it runs. */
  input?: Schema
  /** Default: `default`. A task with a rate limit has a queue of its own. */
  queue?: string
  /** Work is run only by processes whose definition has the same version. Default: by any process with the definition. */
  version?: string
  /** 1 to 10; jobs of a higher priority start first. Default: 5. */
  priority?: number
  retry?: RetryOptions
  /** Limit of one attempt. Default: 1h. */
  timeout?: Duration
  /** A job that has not started this long after it became available fails. */
  expires?: Duration
  /** Jobs take turns by group, so that one group cannot hold up the others. */
  group?: (input: Input) => string
  limit?: LimitOptions
}

/** The second argument of a handler. */
export type TaskContext = Pick<FunctionContext, "attempt" | "signal" | "log" | "progress" | "heartbeat"> & {
  /** Id of the job or run. */
  readonly id: string
}

/** The second argument of the handler of a `txTask`. */
export type TxTaskContext = TaskContext & {
  /** The transaction that also completes the job. On Postgres a client of pg. */
  readonly tx: SqlTransaction
}

export interface TaskDefinition<Input, Output> {
  readonly kind: "task"
  readonly name: string
  /** The function that its jobs call: the name, with the version if it has one. */
  readonly functionName: string
  readonly schema: StandardSchema | undefined
  readonly queue: string
  readonly priority: number
  readonly retry: RetryPolicy
  readonly timeoutMs: number | null
  readonly expiresMs: number | null
  readonly group: ((input: never) => string) | null
  readonly limit: { concurrency: number | null; perGroup: number | null; rate: { limit: number; periodMs: number } | null }
  /** Declared by `txTask`: the handler gets a transaction. */
  readonly transactional: boolean
  readonly handler: (input: never, context: TxTaskContext) => Output | Promise<Output>
  /** Only for the inference of the input. */
  readonly _input?: (input: Input) => void
}

export interface WorkflowOptions<Schema extends StandardSchema | undefined> {
  input?: Schema
  queue?: string
  /** Runs are run only by processes whose definition has the same version. Default: by the newest code. */
  version?: string
  priority?: number
  /** Attempts of the function itself, beside those of its steps. Default: 1. */
  retry?: RetryOptions
  /** Limit of the time between two suspensions. Default: 1h. */
  timeout?: Duration
}

export interface WorkflowDefinition<Input, Output> {
  readonly kind: "workflow"
  readonly name: string
  /** The function that its runs call: the name, with the version if it has one. */
  readonly functionName: string
  readonly schema: StandardSchema | undefined
  readonly queue: string
  readonly priority: number
  readonly retry: RetryPolicy
  readonly timeoutMs: number | null
  readonly handler: (input: never, step: StepTools) => Output | Promise<Output>
  /** Only for the inference of the input. */
  readonly _input?: (input: Input) => void
}

export interface SignalDefinition<Payload> {
  readonly kind: "signal"
  readonly name: string
  readonly schema: StandardSchema | undefined
  /** Only for the inference of the payload. */
  readonly _payload?: Payload
}

export type AnyTask = TaskDefinition<never, unknown>
export type AnyWorkflow = WorkflowDefinition<never, unknown>
/** A definition that runs in a process as one function. */
export type AnyFunctionDefinition = AnyTask | AnyWorkflow
export type Definition = AnyFunctionDefinition | AnyGraph

/** Replaces what JSON cannot carry by never, so that a handler that returns it does not compile. */
export type JsonResult<T> = T extends string | number | boolean | null | undefined | void
  ? T
  : T extends bigint | symbol | Date | Map<unknown, unknown> | Set<unknown> | ((...args: never[]) => unknown)
    ? never
    : T extends object
      ? { [Key in keyof T]: JsonResult<T[Key]> }
      : T

export const DEFAULT_TIMEOUT_MS = 3_600_000
const MAX_ATTEMPTS = 100
const BACKOFFS = ["fixed", "linear", "exponential"] as const
const DEFAULT_RETRY: Required<RetryOptions> = {
  attempts: 3,
  delay: "1s",
  maxDelay: "5m",
  backoff: "exponential",
  jitter: false,
}

export const retryPolicyOf = (given: RetryOptions = {}, what: string, defaults = DEFAULT_RETRY): RetryPolicy => {
  checkNames(given, RETRY, `${what}: retry`)
  const { attempts, delay, maxDelay, backoff, jitter } = { ...defaults, ...omitUndefined(given) }
  checkCount(attempts, `${what}: retry.attempts`, MAX_ATTEMPTS)
  checkOneOf(backoff, BACKOFFS, `${what}: retry.backoff`)
  const baseDelayMs = toMs(delay, `${what}: retry.delay`)
  const maxDelayMs = Math.max(baseDelayMs, toMs(maxDelay, `${what}: retry.maxDelay`))
  return { maxAttempts: attempts, backoff, baseDelayMs, maxDelayMs, jitter }
}

/** Returns the name of a function that is pinned to a version: only programs that have this function claim its work. */
const versionedName = (name: string, version: string | undefined): string => {
  if (name.includes("@"))
    throw new TypeError(`${JSON.stringify(name)} is no name of a definition: give the version as an option`)
  if (version === undefined) return name
  const versioned = `${name}@${version}`
  if (isFunctionName(versioned)) return versioned
  throw new TypeError(`${name}: version is ${JSON.stringify(version)}; use at most 64 letters, digits, "_", "." and "-"`)
}

const checkQueue = (queue: string, what: string): string => {
  if (QUEUE_NAME.test(queue)) return queue
  throw new TypeError(`${what}: ${JSON.stringify(queue)} is not a valid queue name: ${QUEUE_NAME_HINT}`)
}

/** Returns the milliseconds of a limit, which is longer than nothing. */
const spanOf = (value: Duration, what: string): number => {
  const ms = toMs(value, what)
  if (ms > 0) return ms
  throw new TypeError(`${what} must be more than 0`)
}

const rateOf = (rate: LimitOptions["rate"], what: string): TaskDefinition<never, unknown>["limit"]["rate"] => {
  if (rate === undefined) return null
  if (!Array.isArray(rate) || rate.length !== 2)
    throw new TypeError(`${what} must be a number of starts and a period, such as [100, "1s"]`)
  const [starts, period] = rate
  return { limit: checkCount(starts, what), periodMs: spanOf(period, what) }
}

/** Declares a task: a typed handler for jobs. */
export const task = <Schema extends StandardSchema | undefined = undefined, Output = void>(
  name: string,
  options: TaskOptions<Schema, OutputOf<Schema>>,
  handler: (input: OutputOf<Schema>, context: TaskContext) => JsonResult<Output> | Promise<JsonResult<Output>>,
): TaskDefinition<InputOf<Schema>, Output> => defineTask(name, options, handler, false)

/** Declares a task whose handler writes in a transaction. The job is completed by the same commit: the writes happen exactly once. */
export const txTask = <Schema extends StandardSchema | undefined = undefined, Output = void>(
  name: string,
  options: TaskOptions<Schema, OutputOf<Schema>>,
  handler: (input: OutputOf<Schema>, context: TxTaskContext) => JsonResult<Output> | Promise<JsonResult<Output>>,
): TaskDefinition<InputOf<Schema>, Output> => defineTask(name, options, handler, true)

/** Returns the queue of a task with a rate, whose name may have characters that no queue has. */
export const dedicatedQueue = (name: string): string => {
  const queue = name.replaceAll(/[^A-Za-z0-9_]/g, "_")
  return queue === "default" ? "default_" : queue
}

const defineTask = <Schema extends StandardSchema | undefined, Output>(
  name: string,
  options: TaskOptions<Schema, OutputOf<Schema>>,
  handler: (input: OutputOf<Schema>, context: TxTaskContext) => unknown,
  transactional: boolean,
): TaskDefinition<InputOf<Schema>, Output> => {
  checkFunction(name, handler)
  const what = `task ${name}`
  checkNames(options, TASK, what)
  checkNames(options.limit ?? {}, LIMIT, `${what}: limit`)
  const { limit: { concurrency, perGroup, ...limit } = {}, group = null, timeout = DEFAULT_TIMEOUT_MS, expires } = options
  if (group !== null && typeof group !== "function") throw new TypeError(`${what}: group is not a function of the input`)
  if (perGroup !== undefined && group === null) throw new TypeError(`${what}: limit.perGroup requires group`)
  const rate = rateOf(limit.rate, `${what}: limit.rate`)
  return {
    kind: "task",
    name,
    functionName: versionedName(name, options.version),
    schema: checkSchema(options.input, `${what}: input`),
    queue: checkQueue(options.queue ?? (rate === null ? "default" : dedicatedQueue(name)), what),
    priority: checkPriority(options.priority ?? 5, `${what}: priority`),
    retry: retryPolicyOf(options.retry, what),
    timeoutMs: spanOf(timeout, `${what}: timeout`),
    expiresMs: expires === undefined ? null : spanOf(expires, `${what}: expires`),
    group,
    limit: {
      concurrency: concurrency === undefined ? null : checkCount(concurrency, `${what}: limit.concurrency`),
      perGroup: perGroup === undefined ? null : checkCount(perGroup, `${what}: limit.perGroup`),
      rate,
    },
    transactional,
    handler: handler as TaskDefinition<InputOf<Schema>, Output>["handler"],
  }
}

/** Declares a durable function: it continues after a crash, and sleeps and waits without a process. */
export const workflow = <Schema extends StandardSchema | undefined = undefined, Output = void>(
  name: string,
  options: WorkflowOptions<Schema>,
  handler: (input: OutputOf<Schema>, step: StepTools) => JsonResult<Output> | Promise<JsonResult<Output>>,
): WorkflowDefinition<InputOf<Schema>, Output> => {
  checkFunction(name, handler)
  const what = `workflow ${name}`
  checkNames(options, WORKFLOW, what)
  return {
    kind: "workflow",
    name,
    functionName: versionedName(name, options.version),
    schema: checkSchema(options.input, `${what}: input`),
    queue: checkQueue(options.queue ?? "default", what),
    priority: checkPriority(options.priority ?? 5, `${what}: priority`),
    retry: retryPolicyOf(options.retry, what, { ...DEFAULT_RETRY, attempts: 1 }),
    timeoutMs: spanOf(options.timeout ?? DEFAULT_TIMEOUT_MS, `${what}: timeout`),
    handler: handler as WorkflowDefinition<InputOf<Schema>, Output>["handler"],
  }
}

/** Declares a signal, which a durable function waits for. */
export const signal = <Payload = unknown>(name: string, schema?: StandardSchema<Payload>): SignalDefinition<Payload> => {
  if (isReservedSignal(checkText(name, "the name of a signal")))
    throw new TypeError(`"${name}" is no name of a signal: ${SIGNAL_NAME_HINT}`)
  return { kind: "signal", name, schema: checkSchema(schema, `signal ${name}: schema`) }
}
