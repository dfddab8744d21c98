// One attempt as an execution of a Cloud Run job. The shared poller reports its state; the log comes from Cloud Logging, unless
// the container runs `ork exec`.

import type { AttemptResult } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { NO_OUTPUT, type OutputResult } from "../output.ts"
import { type Observation, type Outcome, RemoteAttempt, type RemoteLaunch } from "../remote/remote-attempt.ts"
import { backoff, delay, retryTransient } from "../remote/retry.ts"
import type { CloudRunApi } from "./api.ts"
import { GoogleApiError, describeError, errorOf, isTransient } from "./api-error.ts"
import { isEnded, outcomeOf, phaseOf, waitingReason } from "./classify.ts"
import { ExecutionLog } from "./execution-log.ts"
import type { LogReader } from "./log-reader.ts"
import type { ExecutionPoller, ExecutionWatch } from "./poller.ts"
import { type Execution, type ExecutionName, instantOf, type JobName, logLink, type RunRequest } from "./shapes.ts"
import type { StartedExecution, Starter } from "./starter.ts"

/** Time that missing rights get to take effect. */
const FORBIDDEN_MS = 60_000
/** Polls without the execution after which it counts as deleted. */
const MAX_MISSES = 3
/** Pause between cancel requests that fail. */
const CANCEL_RETRY_MS = 2000
/** Time beyond the grace period after which cancel requests that fail are given up. */
const CANCEL_MS = 60_000
const MAX_PAUSE_MS = 15_000

export interface CloudRunParts {
  api: CloudRunApi
  poller: ExecutionPoller
  starter: Starter
  reader: LogReader
}

export interface CloudRunLaunch extends RemoteLaunch {
  job: JobName
  request: RunRequest
  /** The container that runs the task; null when the job has only one. */
  container: string | null
}

interface RunningExecution {
  name: ExecutionName
  started: StartedExecution
  watch: ExecutionWatch
}

export class CloudRunAttempt extends RemoteAttempt<RunningExecution, Execution> {
  /** Cloud Run reports a start later than the status that `ork exec` writes. */
  protected override readonly execReportsStart = true
  readonly #parts: CloudRunParts
  readonly #launch: CloudRunLaunch
  #ended = false
  /** Error of the last cancel request; null when it succeeded. */
  #cancelError: GoogleApiError | null = null
  #log: ExecutionLog | null = null

  constructor(parts: CloudRunParts, launch: CloudRunLaunch) {
    super(launch)
    this.#parts = parts
    this.#launch = launch
  }

  protected async submit(): Promise<RunningExecution | null> {
    const { poller } = this.#parts
    const started = await this.#start()
    if (started === null) return null
    const { job, id, since } = started
    const name = `${job}/executions/${id}`
    this.externalId = name
    const { attemptId } = this.assignment
    return { name, started, watch: poller.watch({ job, attemptId, id, since, slow: this.exec }, this.changed) }
  }

  /** Resolves at once when the attempt is handed over: a request in flight still records its response in the marker. */
  async #start(): Promise<StartedExecution | null> {
    const { job, request, assignment } = this.#launch
    const { signal } = this.context
    const handover = Promise.withResolvers<null>()
    const onAbort = (): void => {
      if (this.handedOver) handover.resolve(null)
    }
    signal.addEventListener("abort", onAbort)
    try {
      const handedOver = (): boolean => this.handedOver
      const starting = this.#parts.starter.start({ job, assignment, request, signal, handedOver })
      return await Promise.race([starting, handover.promise])
    } finally {
      signal.removeEventListener("abort", onAbort)
    }
  }

  protected submitFailure(error: unknown): Pick<AttemptResult, "error" | "retryable"> {
    return {
      error: `could not start the execution: ${this.describeError(error)}`,
      ...(error instanceof GoogleApiError && !isTransient(error) && { retryable: false }),
    }
  }

  protected observe(running: RunningExecution): Observation<Execution> {
    const { execution, misses, problem } = running.watch
    if (execution) {
      const phase = phaseOf(execution)
      if (phase === "waiting") this.waitingFor = waitingReason(execution)
      else this.#begin(running, execution)
      this.#ended = isEnded(execution)
      if (this.#ended) return { end: execution }
    }
    if (misses >= MAX_MISSES) {
      this.#ended = true
      return { end: DELETED }
    }
    const now = this.clock.monotonic()
    if (problem !== null && !isTransient(problem.error) && now - problem.since > FORBIDDEN_MS) throw problem.error
    return { recheckMs: null }
  }

  #begin(running: RunningExecution, execution: Execution): void {
    const neverStarted = phaseOf(execution) === "cancelled" && !execution.startTime
    if (neverStarted) return
    this.markStarted(this.#clamp(running, execution.startTime))
    if (!this.exec) this.#log ??= this.#openLog(running, execution)
  }

  #openLog({ name, started }: RunningExecution, execution: Execution): ExecutionLog {
    const { since, found } = started
    const source = { name, since, found, container: this.#launch.container, link: logLink(name, execution) }
    const { objects, clock } = this
    return new ExecutionLog({ reader: this.#parts.reader, objects, clock }, this.assignment, this.context.signal, source)
  }

  /** Returns a time by Google's clock, limited to the time between the launch and now. */
  #clamp({ started }: RunningExecution, time: Execution["startTime"]): number {
    const now = this.clock.now()
    return Math.min(now, Math.max(this.startedAt ?? started.since, instantOf(time) ?? now))
  }

  protected async outcome({ name }: RunningExecution, execution: Execution): Promise<Outcome> {
    if (execution === DELETED)
      return { state: "lost", error: "its execution is gone: it, or its job, was deleted", exitCode: null }
    const failed = phaseOf(execution) === "failed" && !this.stopRequested
    const task = failed ? await this.#retry(() => this.#parts.api.task(name)).catch(() => null) : null
    return outcomeOf(execution, task)
  }

  protected async finish(running: RunningExecution, execution: Execution | null): Promise<AttemptResult> {
    if (execution === null) return this.stopped()
    const { stopRequested } = this
    const [outcome, output] = await Promise.all([
      this.outcome(running, execution),
      this.#readLog(execution.completionTime, stopRequested),
    ])
    if (output === null) return this.stopped()
    if (stopRequested && outcome.state !== "success") return this.stopped(outcome.exitCode)
    return { ...this.resultOf(outcome, output), finishedAt: this.#clamp(running, execution.completionTime) }
  }

  /** Reads the rest of the log. Resolves with the output in it, or null when the attempt was handed over. */
  async #readLog(completionTime: Execution["completionTime"], stopRequested: boolean): Promise<OutputResult | null> {
    if (this.#log === null) return NO_OUTPUT
    const output = await this.#log.finish(instantOf(completionTime), stopRequested)
    await this.#log.close()
    return output
  }

  protected override hasEnded(): boolean {
    return this.#ended
  }

  /** Retries: Cloud Run answers 404 for an execution that is new as well as for one that is gone. */
  protected async requestStop({ name, watch }: RunningExecution, over: AbortSignal): Promise<void> {
    const until = this.clock.monotonic() + this.assignment.graceMs + CANCEL_MS
    while (!this.#ended && !over.aborted) {
      this.#cancelError = await this.#cancel(name)
      watch.pollSoon()
      if (this.#cancelError === null) return
      if (this.clock.monotonic() > until) return this.giveUp()
      await delay(this.clock, CANCEL_RETRY_MS, over)
    }
  }

  protected async abandon({ name }: RunningExecution): Promise<void> {
    await this.#cancel(name)
  }

  /** Resolves with the error of a request that Cloud Run rejected, which it also does for executions that have ended. */
  async #cancel(name: ExecutionName): Promise<GoogleApiError | null> {
    return await this.#retry(() => this.#parts.api.cancel(name)).then(() => null, errorOf)
  }

  #retry<T>(call: () => Promise<T>): Promise<T> {
    const pauseMs = (failures: number): number => backoff(failures + 1, MAX_PAUSE_MS)
    return retryTransient({ clock: this.clock, isTransient: (error) => isTransient(errorOf(error)), pauseMs }, call)
  }

  protected override stopped(exitCode: number | null = null): AttemptResult {
    const result = super.stopped(exitCode)
    if (!this.gaveUp) return result
    const reason = this.#cancelError === null ? "Cloud Run has not ended it yet" : this.describeError(this.#cancelError)
    return { ...result, error: `${result.error}, but its execution goes on: ${reason}` }
  }

  protected describeError(error: unknown): string {
    return error instanceof GoogleApiError ? describeError(error, this.#launch.job) : messageOf(error)
  }

  protected async close(running: RunningExecution | null): Promise<void> {
    running?.watch.close()
    await this.#log?.close().catch(() => {})
  }
}

/** Stands for an execution that no longer exists. */
const DELETED: Execution = {}
