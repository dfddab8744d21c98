// Runs one assignment on its executor: enforces the start timeout and the timeout, passes on the reason to stop, masks secrets and checks
// the output. Independent of stores and claims. Used by the engine for its own attempts, and by workers.

import { messageOf } from "../../core/values/error-message.ts"
import { timedOut } from "../../core/rules/messages.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import { type TimedAttempt, TimeoutTimer } from "./timeout-timer.ts"
import type { AttemptResult, Output } from "../../core/model/change.ts"
import { isDeferral } from "../../core/rules/changes/defer.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import { EXEC_EXECUTORS, type Node } from "../../core/model/workflow.ts"
import type { Assignment, Executor, LaunchContext, Progress, Stop, StopReason } from "../../executors/executor.ts"
import { maskJson, maskText } from "../../objects/mask.ts"

export interface RunnerOptions {
  executors: ReadonlyMap<string, Executor>
  clock: Clock
  /** Returns why an output cannot be accepted, or null. Absent where no task has a schema. */
  checkOutput?(schema: JsonObject, output: Output): Promise<string | null>
  /** Stores the artifacts of a successful attempt. Returns why they cannot be stored, or null. Absent where no task has artifacts. */
  storeArtifacts?(assignment: Assignment): Promise<string | null>
}

/** Receives what an attempt reports while it runs. */
export type AttemptListener = Pick<LaunchContext, "started" | "progress">

export class AttemptRunner {
  readonly #options: RunnerOptions
  readonly #timing: Timing

  constructor(options: RunnerOptions) {
    this.#options = options
    this.#timing = { clock: options.clock, timer: new TimeoutTimer(options.clock) }
  }

  /** Runs an attempt. Never rejects: every fault becomes a result. `stop` may be signalled already. */
  async run(assignment: Assignment, stop: StopSignal, listener: AttemptListener): Promise<AttemptResult> {
    const { node, secrets } = assignment
    const executor = this.#options.executors.get(node.executor)
    if (executor === undefined) return this.failed(missingExecutor(node), false)
    const running = new RunningAttempt(assignment, stop, listener, this.#timing)
    try {
      const result = await executor.launch(assignment, running)
      const masked = maskResult(running.explain(result), secrets)
      const checked = node.output === undefined ? masked : await this.#checked(masked, node.output)
      const hasFiles = executor.folderless !== true && !EXEC_EXECUTORS.includes(node.executor)
      return assignment.artifacts !== undefined && hasFiles ? await this.#withArtifacts(checked, assignment) : checked
    } catch (error) {
      return this.failed(maskText(`could not run the task: ${messageOf(error)}`, secrets), true)
    } finally {
      this.#timing.timer.remove(running)
    }
  }

  /** Returns the result of an attempt that fails before its executor runs it. */
  failed(error: string, retryable: boolean): AttemptResult {
    const result = { state: "failed", startedAt: null, finishedAt: this.#options.clock.now(), error } as const
    return retryable ? result : { ...result, retryable }
  }

  /** Fails an attempt whose output does not fit its schema. */
  async #checked(result: AttemptResult, schema: JsonObject): Promise<AttemptResult> {
    if (result.state !== "success") return result
    const output = result.output ?? { inline: null }
    if ("inline" in output && isDeferral(output.inline)) return result
    const error = (await this.#options.checkOutput?.(schema, output)) ?? null
    if (error === null) return result
    const { output: _, ...rest } = result
    return { ...rest, state: "failed", error }
  }

  /** Fails an attempt that succeeded without the artifacts of its definition. */
  async #withArtifacts(result: AttemptResult, assignment: Assignment): Promise<AttemptResult> {
    if (result.state !== "success") return result
    const error = (await this.#options.storeArtifacts?.(assignment)) ?? null
    if (error === null) return result
    const { output: _, ...rest } = result
    return { ...rest, state: "failed", error: maskText(error, assignment.secrets) }
  }
}

/** Returns the error of a task that has no executor here. */
export const missingExecutor = ({ executor, function: name }: Node): string =>
  executor === FUNCTION_EXECUTOR
    ? `no function ${name} is registered here; name the file that registers it with --handlers`
    : `there is no executor ${executor} here`

/** Masks secrets in the error and in an inline output. Outputs that are objects were masked when they were stored. */
const maskResult = (result: AttemptResult, secrets: readonly string[]): AttemptResult => {
  if (secrets.length === 0) return result
  const { error, output } = result
  return {
    ...result,
    ...(error !== undefined && { error: maskText(error, secrets) }),
    ...(output !== undefined && "inline" in output && { output: { inline: maskJson(output.inline, secrets) } }),
  }
}

const maskProgress = (update: Progress, secrets: readonly string[]): Progress =>
  secrets.length === 0 || update.details === undefined ? update : { ...update, details: maskJson(update.details, secrets) }

const NONE: readonly never[] = []

/** Signals an attempt to stop. Creates the AbortSignal on first use: most executors never read it. */
export class StopSignal implements Stop {
  #reason: StopReason | null = null
  #abort: AbortController | null = null
  #listeners: readonly (() => void)[] = NONE

  /** null: not stopped. */
  get reason(): StopReason | null {
    return this.#reason
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.#reason !== null) this.#abort.abort(this.#reason)
    return this.#abort.signal
  }

  onStop(listener: () => void): () => void {
    this.#listeners = [...this.#listeners, listener]
    return () => (this.#listeners = this.#listeners.filter((each) => each !== listener))
  }

  /** Signals a stop; later reasons are ignored. */
  stop(reason: StopReason): void {
    if (this.#reason !== null) return
    this.#reason = reason
    this.#abort?.abort(reason)
    for (const listener of this.#listeners) listener()
  }
}

interface Timing {
  clock: Clock
  timer: TimeoutTimer
}

/** The context of an attempt, with its two timeouts: from its dispatch to its start, and from its start to its end. */
class RunningAttempt implements LaunchContext, TimedAttempt {
  at: number
  readonly stop: StopSignal
  readonly #assignment: Assignment
  readonly #listener: AttemptListener
  readonly #timing: Timing
  #started = false
  #expired = false

  constructor(assignment: Assignment, stop: StopSignal, listener: AttemptListener, timing: Timing) {
    this.stop = stop
    this.#assignment = assignment
    this.#listener = listener
    this.#timing = timing
    this.at = this.#fromNow(assignment.node.startTimeoutMs)
    // The start that another server reported, in milliseconds.
    const startedAt = assignment.adopted?.startedAt ?? null
    if (startedAt !== null) this.#begin(Math.max(0, timing.clock.now() - startedAt))
    timing.timer.add(this)
  }

  get signal(): AbortSignal {
    return this.stop.signal
  }

  // Getters that return bound functions, because executors take them out of the context.
  get started(): LaunchContext["started"] {
    return (info) => {
      this.#begin(0)
      this.#timing.timer.changed(this)
      this.#listener.started(info)
    }
  }

  get progress(): LaunchContext["progress"] {
    return (update) => this.#listener.progress(maskProgress(update, this.#assignment.secrets))
  }

  timeOut(): void {
    this.#expired = true
    this.stop.stop("timeout")
  }

  /** Adds the reason to the error of an attempt that timed out. */
  explain(result: AttemptResult): AttemptResult {
    if (result.state !== "timeout") return result
    if (!this.#expired) return { ...result, error: "stopped, because the run timed out" }
    const { timeoutMs, startTimeoutMs } = this.#assignment.node
    if (this.#started) return { ...result, error: timedOut(timeoutMs ?? 0) }
    const why = result.waitedFor === undefined ? "" : `: ${result.waitedFor}`
    return { ...result, error: `did not start within ${formatDuration(startTimeoutMs ?? 0)}${why}` }
  }

  /** Begins the time to run. A second report of the start changes nothing. */
  #begin(elapsedMs: number): void {
    if (this.#started) return
    this.#started = true
    this.at = this.#fromNow(this.#assignment.node.timeoutMs) - elapsedMs
  }

  #fromNow(ms: number | null): number {
    return ms === null ? Number.POSITIVE_INFINITY : this.#timing.clock.monotonic() + ms
  }
}
