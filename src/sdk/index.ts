// What a user's own code imports from "ork". Small on purpose: it is loaded into every worker process of functions; what holds a worker
// is loaded when one is started.

import type { RunningWorker, WorkerSettings } from "./worker-settings.ts"

export { RetryAfter, TerminalError } from "../executors/errors.ts"
export { register } from "../executors/registry.ts"
export type { AnyFunction, FunctionContext, FunctionLog, TaskFunction } from "../core/model/function.ts"
export type { Json, JsonObject } from "../core/model/json.ts"
export type { RunningWorker, WorkerLog, WorkerSettings } from "./worker-settings.ts"

/** Takes calls of functions, and jobs, from servers, and runs them in this process until it is stopped. Resolves when a server has it. */
export const startWorker = async (settings: WorkerSettings = {}): Promise<RunningWorker> => {
  const { startWorker: start } = await import("./start-worker.ts")
  return start(settings)
}
