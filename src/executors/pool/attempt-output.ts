// What a function says and answers, on its way to the object store and into the result of its attempt; wherever it ran.

import type { AttemptResult } from "../../core/model/change.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import { maskBytes, maskText } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, LaunchContext } from "../executor.ts"
import { type OutputResult, INLINE_MAX, parseOutput, tooLarge } from "../output.ts"
import { messageOf } from "../../core/model/error-message.ts"
import type { FunctionError } from "./frames.ts"
import type { TaskListener } from "./worker.ts"

/** From what a function returned, as JSON. */
export const storeOutput = async (
  objects: ObjectStore,
  json: Buffer,
  { prefix, maxOutputBytes, secrets }: Assignment,
): Promise<OutputResult> => {
  if (json.length > maxOutputBytes) return tooLarge("output", json.length, maxOutputBytes)
  if (json.length <= INLINE_MAX) return parseOutput(json, secrets)
  const key = `${prefix}output.json`
  try {
    const masked = maskBytes(json, secrets)
    await objects.put(key, masked)
    return { output: { key, bytes: masked.length } }
  } catch (error) {
    return { error: `its output could not be stored: ${messageOf(error)}` }
  }
}

/** From what a function threw. */
export const failureOf = (
  { message, terminal, retryAfterMs }: FunctionError,
  secrets: readonly string[],
): Pick<AttemptResult, "state" | "error" | "retryable" | "retryAfterMs"> => ({
  state: "failed",
  error: maskText(message, secrets),
  ...(terminal === true && { retryable: false }),
  ...(retryAfterMs !== undefined && { retryAfterMs }),
})

/** What a task says goes to its log, which is made with the first of it. */
export class AttemptOutput implements TaskListener {
  readonly #objects: ObjectStore
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  #log: LogSink | null = null
  #problem: string | null = null

  constructor(objects: ObjectStore, assignment: Assignment, context: LaunchContext) {
    this.#objects = objects
    this.#assignment = assignment
    this.#context = context
  }

  async output(...said: Parameters<LogSink["write"]>): Promise<void> {
    try {
      this.#log ??= openLog(this.#objects, this.#assignment.prefix, this.#assignment)
      await this.#log.write(...said)
    } catch (error) {
      this.#problem ??= messageOf(error)
    }
  }

  progress(...update: Parameters<LaunchContext["progress"]>): void {
    this.#context.progress(...update)
  }

  /** What went wrong with the log, if anything did. */
  async close(): Promise<string | null> {
    try {
      await this.#log?.close()
    } catch (error) {
      this.#problem ??= messageOf(error)
    }
    return this.#problem
  }
}
