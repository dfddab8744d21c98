// The module that user code imports as "ork". Small, because every worker process of functions loads it; the worker itself is loaded by
// `startWorker`.

import type { RunningWorker, WorkerSettings } from "./worker-settings.ts"

export { RetryAfter, TerminalError } from "../executors/errors.ts"
export { register } from "../executors/registry.ts"
export {
  canTransition,
  compareJobs,
  dependencyStatus,
  detectCycle,
  JOB_TRANSITIONS,
  orderJobs,
  propagateCompletion,
  propagateFailure,
  retryDelay,
  selectNextJobs,
  shouldRetry,
} from "../core/rules/jobs.ts"
export type {
  BackoffStrategy,
  CycleDetectionResult,
  DependencyStatus,
  JobRetryPolicy,
  JobStatus,
  LinkedJob,
  OrderedJob,
} from "../core/rules/jobs.ts"
export type { AnyFunction, FunctionContext, FunctionLog, TaskFunction } from "../core/model/function.ts"
export type { Json, JsonObject } from "../core/model/json.ts"
export type { RunningWorker, WorkerLog, WorkerSettings } from "./worker-settings.ts"

/** Runs function tasks and jobs of a server in this process until it is stopped. Resolves when the worker is registered. */
export const startWorker = async (settings: WorkerSettings = {}): Promise<RunningWorker> => {
  const { startWorker: start } = await import("./start-worker.ts")
  return start(settings)
}
