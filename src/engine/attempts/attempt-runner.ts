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
  readonly #timeouts: TimeoutTimer

  constructor(options: RunnerOptions) {
    this.#options = options
    this.#timeouts = new TimeoutTimer(options.clock)
  }

  /** Runs an attempt. Never rejects: every fault becomes a result. `stop` may be signalled already. */
  async run(assignment: Assignment, stop: StopSignal, listener: AttemptListener): Promise<AttemptResult> {
    const { node, secrets } = assignment
    const executor = this.#options.executors.get(node.executor)
    if (executor === undefined) return this.failed(missingExecutor(node), false)
    const timeouts = new AttemptTimeouts(this.#options.clock, node, stop, assignment.adopted?.startedAt ?? null)
    this.#timeouts.add(timeouts)
    try {
      const started: AttemptListener["started"] = (info) => {
        timeouts.started()
        this.#timeouts.changed(timeouts)
        listener.started(info)
      }
      const progress: AttemptListener["progress"] = (update) => listener.progress(maskProgress(update, secrets))
      const result = await executor.launch(assignment, new AttemptContext(stop, started, progress))
      const masked = maskResult(timeouts.explain(result), secrets)
      const checked = node.output === undefined ? masked : await this.#checked(masked, node.output)
      const hasFiles = executor.folderless !== true && !EXEC_EXECUTORS.includes(node.executor)
      return assignment.artifacts !== undefined && hasFiles ? await this.#withArtifacts(checked, assignment) : checked
    } catch (error) {
      return this.failed(maskText(`could not run the task: ${messageOf(error)}`, secrets), true)
    } finally {
      this.#timeouts.remove(timeouts)
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

/** Signals an attempt to stop. Creates the AbortSignal on first use: most executors never read it. */
export class StopSignal implements Stop {
  #reason: StopReason | null = null
  #abort: AbortController | null = null
  #listeners: (() => void)[] = []

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
    this.#listeners.push(listener)
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

/** A class, because a getter on a shared prototype costs less than one per attempt. */
class AttemptContext implements LaunchContext {
  readonly stop: StopSignal
  readonly started: LaunchContext["started"]
  readonly progress: LaunchContext["progress"]

  constructor(stop: StopSignal, started: LaunchContext["started"], progress: LaunchContext["progress"]) {
    this.stop = stop
    this.started = started
    this.progress = progress
  }

  get signal(): AbortSignal {
    return this.stop.signal
  }
}

/** The two timeouts of an attempt: from its dispatch to its start, and from its start to its end. */
class AttemptTimeouts implements TimedAttempt {
  at: number
  readonly #clock: Clock
  readonly #node: Node
  readonly #stop: StopSignal
  #started = false
  #expired = false

  /** `startedAt`: the start that another server reported, in milliseconds; null when there was none. */
  constructor(clock: Clock, node: Node, stop: StopSignal, startedAt: number | null) {
    this.#clock = clock
    this.#node = node
    this.#stop = stop
    this.at = this.#fromNow(node.startTimeoutMs)
    if (startedAt !== null) this.started(Math.max(0, clock.now() - startedAt))
  }

  /** Begins the time to run. A second report of the start changes nothing. */
  started(elapsedMs = 0): void {
    if (this.#started) return
    this.#started = true
    this.at = this.#fromNow(this.#node.timeoutMs) - elapsedMs
  }

  timeOut(): void {
    this.#expired = true
    this.#stop.stop("timeout")
  }

  /** Adds the reason to the error of an attempt that timed out. */
  explain(result: AttemptResult): AttemptResult {
    if (result.state !== "timeout") return result
    if (!this.#expired) return { ...result, error: "stopped, because the run timed out" }
    const { timeoutMs, startTimeoutMs } = this.#node
    if (this.#started) return { ...result, error: timedOut(timeoutMs ?? 0) }
    const why = result.waitedFor === undefined ? "" : `: ${result.waitedFor}`
    return { ...result, error: `did not start within ${formatDuration(startTimeoutMs ?? 0)}${why}` }
  }

  #fromNow(ms: number | null): number {
    return ms === null ? Number.POSITIVE_INFINITY : this.#clock.monotonic() + ms
  }
}
