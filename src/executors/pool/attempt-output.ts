// Stores the log and the output of a function, and converts its errors to results, wherever it ran.

import { type AttemptResult, MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import { maskBytes, maskText } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, LaunchContext } from "../executor.ts"
import { JsonValidator } from "../json-validator.ts"
import { type OutputResult, parseOutput, parseOutputText, tooLarge } from "../output.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { FunctionError } from "./frames.ts"
import type { TaskListener } from "./worker.ts"

/** Stores or parses the return value of a function, given as JSON. */
export const storeOutput = async (
  objects: ObjectStore,
  json: Buffer,
  { prefix, maxOutputBytes, secrets }: Assignment,
): Promise<OutputResult> => {
  if (json.length > maxOutputBytes) return tooLarge("output", json.length, maxOutputBytes)
  if (json.length <= MAX_INLINE_OUTPUT_BYTES) return parseOutput(json, secrets)
  const problem = new JsonValidator().push(json)
  if (problem !== null) return { error: `its output contains ${problem}` }
  const key = `${prefix}output.json`
  try {
    const masked = maskBytes(json, secrets)
    await objects.put(key, masked)
    return { output: { key, bytes: masked.length } }
  } catch (error) {
    return { error: `its output could not be stored: ${messageOf(error)}` }
  }
}

/** Stores or parses the return value of a function of this process. A character has three bytes at most. */
export const storeOutputText = (
  objects: ObjectStore,
  json: string,
  assignment: Assignment,
): OutputResult | Promise<OutputResult> =>
  3 * json.length <= Math.min(MAX_INLINE_OUTPUT_BYTES, assignment.maxOutputBytes)
    ? parseOutputText(json, assignment.secrets)
    : storeOutput(objects, Buffer.from(json), assignment)

/** Converts an error that a function threw. */
export const failureOf = (
  { message, terminal, retryAfterMs }: FunctionError,
  secrets: readonly string[],
): Pick<AttemptResult, "state" | "error" | "retryable" | "retryAfterMs"> => ({
  state: "failed",
  error: maskText(message, secrets),
  ...(terminal === true && { retryable: false }),
  ...(retryAfterMs !== undefined && { retryAfterMs }),
})

/** Writes a task's output to its log, which is opened at the first byte. */
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

  /** Something was written. */
  get isUsed(): boolean {
    return this.#log !== null || this.#problem !== null
  }

  async output(...args: Parameters<LogSink["write"]>): Promise<void> {
    try {
      this.#log ??= openLog(this.#objects, this.#assignment.prefix, this.#assignment)
      await this.#log.write(...args)
    } catch (error) {
      this.#problem ??= messageOf(error)
    }
  }

  progress(...update: Parameters<LaunchContext["progress"]>): void {
    this.#context.progress(...update)
  }

  /** Closes the log. Returns why it could not be stored; null when it was. */
  async close(): Promise<string | null> {
    try {
      await this.#log?.close()
    } catch (error) {
      this.#problem ??= messageOf(error)
    }
    return this.#problem
  }
}
