// What a user's own code imports from "ork". Small on purpose: it is loaded into every worker process of functions.

export { RetryAfter, TerminalError } from "../executors/errors.ts"
export type { FunctionContext, FunctionLog, TaskFunction } from "../core/function.ts"
