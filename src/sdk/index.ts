// The module that user code imports as "ork". Small, because every worker process of functions loads it; the engine and the worker are
// loaded when they are opened.

import type { Ork as Engine, OrkOptions } from "./ork.ts"
import type { RunningWorker, WorkerSettings } from "./worker-settings.ts"

export { FatalError, RetryLater } from "../executors/errors.ts"
export { register } from "../executors/registry.ts"
export { dependencyStatus, detectCycle, JOB_TRANSITIONS, retryDelay, shouldRetry } from "../core/rules/jobs/jobs.ts"
export {
  canTransition,
  compareJobs,
  orderJobs,
  propagateCompletion,
  propagateFailure,
  selectNextJobs,
} from "../core/rules/jobs/published.ts"
export type {
  BackoffStrategy,
  CycleDetectionResult,
  DependencyStatus,
  JobRetryPolicy,
  JobStatus,
  JobWithStatus as LinkedJob,
} from "../core/rules/jobs/jobs.ts"
export type { OrderedJob } from "../core/rules/jobs/published.ts"
export { signal, task, txTask, workflow } from "./definitions.ts"
export { graph } from "./graph/graph.ts"
export { yaml } from "./graph/yaml.ts"
// A star, so that a module of the user can add to its interface.
export type * from "./graph/yaml-workflows.ts"
export {
  CancelledError,
  ConflictError,
  InvalidDefinitionError,
  InvalidInputError,
  NewerDatabaseError,
  NonDeterminismError,
  NotFoundError,
  NotJsonError,
  OrkError,
  StoppedError,
  TaskFailedError,
  TimeoutError,
  TransactionError,
  UnavailableError,
} from "./errors.ts"
export type { AnyFunction, FunctionContext, FunctionLog, TaskFunction } from "../core/model/function.ts"
export type { Json, JsonObject } from "../core/values/json.ts"
export type { SqlTransaction } from "../store/contract/transactions.ts"
export type {
  Definition,
  LimitOptions,
  RetryOptions,
  SignalDefinition,
  TaskContext,
  TaskDefinition,
  TaskOptions,
  TxTaskContext,
  WorkflowDefinition,
  WorkflowOptions,
} from "./definitions.ts"
export type { Duration } from "./duration.ts"
export type { EventOptions, OrkEvent, Progress } from "./events.ts"
export type { DefinitionProblem } from "./errors.ts"
export type { GraphDefinition, GraphOptions } from "./graph/graph.ts"
export type { Ref, RefOf, Value } from "./graph/refs.ts"
export type { CallOptions, ConditionOptions, EachOptions, GraphTools } from "./graph/tools.ts"
export type { ApprovalOptions, StepContext, StepOptions, StepTools } from "./durable/step-tools.ts"
export type { ApprovalAnswer } from "../core/model/function-signals.ts"
export type {
  AnswerOptions,
  Enqueueable,
  EnqueueOptions,
  JobState,
  ListOptions,
  Orkable,
  ResultOptions,
  RunState,
  ScheduleOptions,
  Transaction,
  TransactionOptions,
  Work,
} from "./orkable.ts"
export type { OrkOptions } from "./ork.ts"
export type { StandardSchema } from "./schema.ts"
export type { Logger as WorkerLog } from "../engine/ports.ts"
export type { RunningWorker, WorkerSettings } from "./worker-settings.ts"

/** The engine in this process. */
export type Ork = Engine

export const Ork = {
  /** Opens the database, creates or migrates its tables, and starts the engine. */
  async open(options: OrkOptions): Promise<Engine> {
    const { Ork: engine } = await import("./ork.ts")
    return await engine.open(options)
  },
}

/** Runs function tasks and jobs of a server in this process until it is stopped. Resolves when the worker is registered. */
export const startWorker = async (settings: WorkerSettings = {}): Promise<RunningWorker> => {
  const { startWorker: start } = await import("./start-worker.ts")
  return start(settings)
}
