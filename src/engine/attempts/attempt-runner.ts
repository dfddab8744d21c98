// Runs one assignment on its executor: the clocks (start timeout, timeout), the reason that stops it, the check of its output.
// Knows nothing of stores and claims. Used by the engine for work of its own, and by a worker for what a server gave it.

import { messageOf } from "../../core/model/error-message.ts"
import { formatDuration } from "../../core/model/quantities.ts"
import { type Deadline, Deadlines } from "./deadlines.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import { isDeferral } from "../../core/rules/defer.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import { checkSchema } from "../../core/model/json-schema.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { Assignment, Executor, LaunchContext, Progress, StopReason } from "../../executors/executor.ts"
import { maskJson, maskText } from "../../objects/mask.ts"

export interface RunnerOptions {
  executors: ReadonlyMap<string, Executor>
  clock: Clock
  /** A large output, whole. */
  readOutput(key: string): Promise<Json>
}

/** What the one who asked is told while the attempt runs. */
export type AttemptListener = Pick<LaunchContext, "started" | "progress">

export class AttemptRunner {
  readonly #options: RunnerOptions
  readonly #deadlines: Deadlines

  constructor(options: RunnerOptions) {
    this.#options = options
    this.#deadlines = new Deadlines(options.clock)
  }

  /** Never rejects: whatever goes wrong is a result. `stop` may have been told to stop already. */
  async run(assignment: Assignment, stop: StopSignal, told: AttemptListener): Promise<AttemptResult> {
    const { node, secrets } = assignment
    const executor = this.#options.executors.get(node.executor)
    if (executor === undefined) return this.failed(missingExecutor(node), false)
    const attempt = new AttemptClock(this.#options.clock, node, stop)
    this.#deadlines.add(attempt)
    try {
      const started: AttemptListener["started"] = (info) => {
        attempt.started()
        this.#deadlines.moved(attempt)
        told.started(info)
      }
      const progress: AttemptListener["progress"] = (update) => told.progress(maskedProgress(update, secrets))
      const result = await executor.launch(assignment, new Context(stop, started, progress))
      const shown = masked(attempt.explain(result), secrets)
      return node.output === undefined ? shown : await this.#checked(shown, node.output)
    } catch (error) {
      return this.failed(maskText(`could not run the task: ${messageOf(error)}`, secrets), true)
    } finally {
      this.#deadlines.remove(attempt)
    }
  }

  /** The result of an attempt that did not get as far as its executor. */
  failed(error: string, retryable: boolean): AttemptResult {
    const result = { state: "failed", startedAt: null, finishedAt: this.#options.clock.now(), error } as const
    return retryable ? result : { ...result, retryable }
  }

  /** An output that does not fit its schema fails the attempt. */
  async #checked(result: AttemptResult, schema: JsonObject): Promise<AttemptResult> {
    if (result.state !== "success") return result
    const output = result.output ?? { inline: null }
    if ("inline" in output && isDeferral(output.inline)) return result
    const value = "inline" in output ? output.inline : await this.#options.readOutput(output.key)
    const problem = checkSchema(schema, value)
    if (problem === null) return result
    const { output: _, ...rest } = result
    return { ...rest, state: "failed", error: `the output does not fit its schema: ${problem}` }
  }
}

/** What is said of a task that nobody here can run. */
export const missingExecutor = ({ executor, function: name }: Node): string =>
  executor === FUNCTION_EXECUTOR
    ? `no function ${name} is registered here; name the file that registers it with --handlers`
    : `there is no executor ${executor} here`

/** What a task was given to keep for itself is told to nobody. Outputs that are objects were masked when they were stored. */
const masked = (result: AttemptResult, secrets: readonly string[]): AttemptResult => {
  if (secrets.length === 0) return result
  const { error, output } = result
  return {
    ...result,
    ...(error !== undefined && { error: maskText(error, secrets) }),
    ...(output !== undefined && "inline" in output && { output: { inline: maskJson(output.inline, secrets) } }),
  }
}

const maskedProgress = (update: Progress, secrets: readonly string[]): Progress =>
  secrets.length === 0 || update.details === undefined ? update : { ...update, details: maskJson(update.details, secrets) }

/** How a live attempt is told to stop. The signal is made when somebody asks for it: most never do. */
export class StopSignal {
  #reason: StopReason | null = null
  #abort: AbortController | null = null

  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.#reason !== null) this.#abort.abort(this.#reason)
    return this.#abort.signal
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    this.#reason ??= reason
    this.#abort?.abort(this.#reason)
  }
}

/** A class for its getter, which an object of its own would have to be given each time. */
class Context implements LaunchContext {
  readonly #stop: StopSignal
  readonly started: LaunchContext["started"]
  readonly progress: LaunchContext["progress"]

  constructor(stop: StopSignal, started: LaunchContext["started"], progress: LaunchContext["progress"]) {
    this.#stop = stop
    this.started = started
    this.progress = progress
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }
}

/** The two clocks of an attempt: from dispatch to its start, and from its start to its end. */
class AttemptClock implements Deadline {
  at: number
  readonly #clock: Clock
  readonly #node: Node
  readonly #stop: StopSignal
  #started = false
  #expired = false

  constructor(clock: Clock, node: Node, stop: StopSignal) {
    this.#clock = clock
    this.#node = node
    this.#stop = stop
    this.at = this.#from(node.startTimeoutMs)
  }

  started(): void {
    this.#started = true
    this.at = this.#from(this.#node.timeoutMs)
  }

  expire(): void {
    this.#expired = true
    this.#stop.stop("timeout")
  }

  /** Puts the reason into the error of an attempt that ran out of time. */
  explain(result: AttemptResult): AttemptResult {
    if (result.state !== "timeout" || !this.#expired) return result
    const { timeoutMs, startTimeoutMs } = this.#node
    if (this.#started) return { ...result, error: `timed out after ${formatDuration(timeoutMs ?? 0)}` }
    const why = result.waitedFor === undefined ? "" : `: ${result.waitedFor}`
    return { ...result, error: `did not start within ${formatDuration(startTimeoutMs ?? 0)}${why}` }
  }

  #from(ms: number | null): number {
    return ms === null ? Number.POSITIVE_INFINITY : this.#clock.now() + ms
  }
}
