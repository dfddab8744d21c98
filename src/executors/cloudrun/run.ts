// One attempt as an execution of a job: start or find again → wait → end. The shared loop says what has become of it; with `ork exec` in the
// container the object store says more, and sooner.

import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Gone, watchExec } from "../exec/exec.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import { type Answer, NOTHING } from "../output.ts"
import { backoff, Bell, delay } from "../remote/pacing.ts"
import { stoppedResult } from "../stopped.ts"
import type { CloudRunApi } from "./api.ts"
import { ApiError, errorOf, inWords, isPassing } from "./api-error.ts"
import { ExecutionLog } from "./execution-log.ts"
import type { LogReader } from "./log-reader.ts"
import type { ExecutionPoller, Watch } from "./poller.ts"
import { type Execution, instantOf, type JobName, logLink, type RunRequest } from "./shapes.ts"
import { type Ending, endingOf, phaseOf, waitsFor } from "./classify.ts"
import type { Started, Starter } from "./starter.ts"

/** After the grace: for an execution that was cancelled to be seen so. */
const KILLED_MS = 60_000
/** Rights that are missing may be on their way. */
const REFUSED_MS = 60_000
const MAX_MISSES = 3
const TRIES = 8
/** Between cancels that were not taken. */
const AGAIN_MS = 2000
const LAST_PAUSE_MS = 15_000

export interface RunParts {
  api: CloudRunApi
  poller: ExecutionPoller
  starter: Starter
  reader: LogReader
  objects: ObjectStore
  clock: Clock
}

export interface Launch {
  job: JobName
  request: RunRequest
  /** Its container runs `ork exec`. */
  exec: boolean
  /** Which of its containers is the task; null: the only one. */
  container: string | null
}

export class ExecutionRun {
  readonly #parts: RunParts
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  readonly #launch: Launch
  #started: Started | null = null
  #startedAt: number | null = null
  #why: string | null = null
  /** It had not ended when it was told to. */
  #told = false
  #gaveUp = false
  #over = false
  /** Why it could not be cancelled. */
  #refused: ApiError | null = null
  #log: ExecutionLog | null = null
  readonly #bell: Bell

  constructor(parts: RunParts, assignment: Assignment, context: LaunchContext, launch: Launch) {
    this.#bell = new Bell(parts.clock)
    this.#parts = parts
    this.#assignment = assignment
    this.#context = context
    this.#launch = launch
  }

  async run(): Promise<AttemptResult> {
    const { starter } = this.#parts
    const { signal } = this.#context
    const { job, request } = this.#launch
    // A request that is on its way is not waited for: its answer still comes into the marker.
    const left = Promise.withResolvers<null>()
    const onAbort = (): void => void (this.#leave && left.resolve(null))
    signal.addEventListener("abort", onAbort)
    try {
      const leave = (): boolean => this.#leave
      const starting = starter.start({ job, assignment: this.#assignment, request, signal, leave })
      this.#started = await Promise.race([starting, left.promise])
    } catch (error) {
      if (signal.aborted) return this.#stopped()
      return {
        ...this.#base(null),
        state: "failed",
        error: `could not start the execution: ${wordsOf(error, job)}`,
        ...(error instanceof ApiError && !isPassing(error) && { retryable: false }),
      }
    } finally {
      signal.removeEventListener("abort", onAbort)
    }
    if (this.#started === null || this.#leave) return this.#stopped()
    return await this.#follow(this.#started)
  }

  /** Somebody else goes on with it: the execution is not ours to touch. */
  get #leave(): boolean {
    const { signal } = this.#context
    const reason = signal.reason as StopReason
    return signal.aborted && (reason === "shutdown" || reason === "lost")
  }

  get #name(): string | null {
    return this.#started === null ? null : `${this.#started.job}/executions/${this.#started.id}`
  }

  // -- its life ------------------------------------------------------------------------------------------------------------------

  async #follow(started: Started): Promise<AttemptResult> {
    const { poller } = this.#parts
    const { exec } = this.#launch
    const { attemptId } = this.#assignment
    const { job, id, since } = started
    const wanted = { job, attemptId, id, since, slow: exec }
    const watch = poller.watch(wanted, () => this.#bell.ring())
    const release = this.#stopOnAbort(watch)
    try {
      return exec ? await this.#watchExec(watch) : await this.#watch(watch)
    } catch (error) {
      await this.#cancel()
      return { ...this.#base(null), state: "failed", error: `could not be followed: ${wordsOf(error, job)}` }
    } finally {
      release()
      watch.close()
    }
  }

  async #watch(watch: Watch): Promise<AttemptResult> {
    try {
      const execution = await this.#untilEnd(watch)
      if (execution === null) return this.#stopped()
      const told = this.#told
      const [ending, answer] = await Promise.all([this.#ending(execution), this.#answer(execution, told)])
      if (answer === null) return this.#stopped()
      if (told && ending.state !== "success") return this.#stopped(ending)
      const base = this.#base(execution, ending)
      if (ending.state !== "success")
        return { ...base, state: ending.state, ...(ending.error !== null && { error: ending.error }) }
      return "error" in answer ? { ...base, state: "failed", error: answer.error } : { ...base, state: "success", ...answer }
    } finally {
      await this.#log?.close().catch(() => {})
    }
  }

  /** All that it said is in the attempt's log. null: somebody else goes on with it. */
  async #answer({ completionTime }: Execution, told: boolean): Promise<Answer | null> {
    const log = this.#log
    if (log === null) return NOTHING
    const answer = await log.end(instantOf(completionTime), told)
    await log.close()
    return answer
  }

  /** What the container says goes to Cloud Logging, from where it is read while it runs. */
  #openLog(execution: Execution): ExecutionLog {
    const name = this.#name ?? ""
    const { since, found } = this.#started ?? { since: this.#parts.clock.now(), found: false }
    const source = { name, since, found, container: this.#launch.container, link: logLink(name, execution) }
    return new ExecutionLog(this.#parts, this.#assignment, this.#context.signal, source)
  }

  /** `ork exec` writes log, output and end to the object store; Cloud Run says when it is gone. */
  async #watchExec(watch: Watch): Promise<AttemptResult> {
    const { objects, clock } = this.#parts
    const left = Promise.withResolvers<AttemptResult>()
    let over = false
    const gone = this.#untilEnd(watch).then(async (execution): Promise<Gone> => {
      over = true
      if (this.#leave) left.resolve(this.#stopped())
      return execution === null ? { state: "lost", error: "nobody follows it any more" } : goneOf(await this.#ending(execution))
    })
    gone.catch((error: unknown) => left.reject(error as Error))
    const externalId = this.#name ?? ""
    try {
      const watched = watchExec({ objects, clock, assignment: this.#assignment, context: this.#context, gone, externalId })
      const result = await Promise.race([watched, left.promise])
      // What has not been heard of for long must not go on beside the next attempt.
      if (!over && result.state === "lost" && !this.#leave) await this.#cancel()
      return result.startedAt === null && this.#why !== null ? { ...result, waitedFor: this.#why } : result
    } finally {
      this.#gaveUp = true
      this.#bell.ring()
    }
  }

  /** null: it is left to somebody else, or could not be stopped. Rejects when it may not be looked at. */
  async #untilEnd(watch: Watch): Promise<Execution | null> {
    const { clock } = this.#parts
    for (;;) {
      if (this.#leave || this.#gaveUp) return null
      const { execution, misses, problem } = watch
      if (execution) {
        const phase = phaseOf(execution)
        if (phase === "waiting") this.#why = waitsFor(execution)
        else this.#begin(execution)
        this.#over = phase !== "waiting" && phase !== "running"
        if (this.#over) return execution
      }
      if (misses >= MAX_MISSES) {
        this.#over = true
        return DELETED
      }
      if (problem !== null && !isPassing(problem.error) && clock.now() - problem.since > REFUSED_MS) throw problem.error
      await this.#bell.wait()
    }
  }

  #begin(execution: Execution): void {
    // One that was cancelled before it began never did.
    if (this.#startedAt !== null || (phaseOf(execution) === "cancelled" && !execution.startTime)) return
    this.#startedAt = this.#instant(execution.startTime)
    // With `ork exec` the status in the object store tells.
    if (this.#launch.exec) return
    this.#context.started({ at: this.#startedAt, externalId: this.#name ?? "" })
    this.#log = this.#openLog(execution)
  }

  /** By Google's clock, but neither before the launch nor in the future. */
  #instant(time: Execution["startTime"]): number {
    const now = this.#parts.clock.now()
    return Math.min(now, Math.max(this.#startedAt ?? this.#started?.since ?? now, instantOf(time) ?? now))
  }

  // -- its end -------------------------------------------------------------------------------------------------------------------

  #stopOnAbort(watch: Watch): () => void {
    const { clock } = this.#parts
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      this.#bell.ring()
      if (this.#leave || this.#over) return
      this.#told = true
      void this.#cancelUntilTaken(watch)
      cancelTimer = clock.after(this.#assignment.graceMs + KILLED_MS, () => {
        this.#gaveUp = true
        this.#bell.ring()
      })
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  /** One that is new may not be known to all of Cloud Run: it answers 404 then, as for one that is gone. */
  async #cancelUntilTaken(watch: Watch): Promise<void> {
    while (!this.#over && !this.#gaveUp) {
      this.#refused = await this.#cancel()
      watch.soon()
      if (this.#refused === null) return
      await delay(this.#parts.clock, AGAIN_MS)
    }
  }

  /** null: it was taken. One that has ended, or is gone, needs none: Cloud Run then answers 400 or 404. */
  async #cancel(): Promise<ApiError | null> {
    const name = this.#name
    if (name === null) return null
    return await this.#persist(() => this.#parts.api.cancel(name)).then(() => null, errorOf)
  }

  async #ending(execution: Execution): Promise<Ending> {
    if (execution === DELETED)
      return { state: "lost", error: "its execution is gone: it, or its job, was deleted", exitCode: null }
    const name = this.#name
    const failed = phaseOf(execution) === "failed" && name !== null && !this.#told
    const task = failed ? await this.#persist(() => this.#parts.api.task(name)).catch(() => null) : null
    return endingOf(execution, task)
  }

  async #persist<T>(call: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await call()
      } catch (error) {
        if (!isPassing(errorOf(error)) || tries >= TRIES) throw error
        await delay(this.#parts.clock, backoff(tries, LAST_PAUSE_MS))
      }
    }
  }

  #base(execution: Execution | null, ending: Ending | null = null): Omit<AttemptResult, "state"> {
    const name = this.#name
    return {
      startedAt: this.#startedAt,
      finishedAt: this.#instant(execution?.completionTime),
      ...(name !== null && { externalId: name }),
      ...(ending !== null && ending.exitCode !== null && { exitCode: ending.exitCode }),
    }
  }

  #stopped(ending: Ending | null = null): AttemptResult {
    const waited = this.#startedAt === null && this.#why !== null ? { waitedFor: this.#why } : {}
    const base = { ...this.#base(null, ending), ...waited }
    const result = stoppedResult(this.#context.signal.reason as StopReason, base, this.#assignment)
    if (!this.#gaveUp) return result
    const why = this.#refused === null ? "Cloud Run has not ended it yet" : inWords(this.#refused, this.#launch.job)
    return { ...result, error: `${result.error}, but its execution goes on: ${why}` }
  }
}

/** Of Cloud Run, or of the object store. */
const wordsOf = (error: unknown, job: JobName): string => (error instanceof ApiError ? inWords(error, job) : messageOf(error))

/** Stands for one that is no longer there. */
const DELETED: Execution = {}

const goneOf = ({ state, error, exitCode }: Ending): Gone => {
  const base = exitCode === null ? {} : { exitCode }
  if (state === "success") {
    return {
      ...base,
      state: "failed",
      error: "its container ended without a word: does the job run `ork exec`, on the same object store?",
    }
  }
  return { ...base, state, ...(error !== null && { error }) }
}
