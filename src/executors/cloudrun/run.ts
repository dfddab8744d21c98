// One attempt as an execution of a job: start or find again → wait → end. The shared loop says what has become of it; with `ork exec` in the
// container the object store says more, and sooner.

import type { AttemptResult } from "../../core/change.ts"
import type { Clock } from "../../core/ports.ts"
import { openLog } from "../../objects/log-sink.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Gone, watchExec } from "../exec/exec.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import { backoff, delay } from "../pacing.ts"
import { stoppedResult } from "../stopped.ts"
import type { CloudRunApi } from "./api.ts"
import { errorOf, inWords, isPassing } from "./api-error.ts"
import type { ExecutionPoller, Watch } from "./poller.ts"
import { type Execution, instantOf, type JobName, logLink, type RunRequest } from "./shapes.ts"
import { type Ending, endingOf, phaseOf, waitsFor } from "./standing.ts"
import type { Started, Starter } from "./starter.ts"

/** After the grace: for an execution that was cancelled to be seen so. */
const KILLED_MS = 60_000
/** Rights that are missing may be on their way. */
const REFUSED_MS = 60_000
const MAX_MISSES = 3
const TRIES = 8
const LAST_PAUSE_MS = 15_000

export interface RunParts {
  api: CloudRunApi
  poller: ExecutionPoller
  starter: Starter
  objects: ObjectStore
  clock: Clock
}

export interface Launch {
  job: JobName
  request: RunRequest
  /** Its container runs `ork exec`. */
  exec: boolean
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
  #woken = false
  #rouse: () => void = () => {}

  constructor(parts: RunParts, assignment: Assignment, context: LaunchContext, launch: Launch) {
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
      const problem = errorOf(error)
      return {
        ...this.#base(null),
        state: "failed",
        error: `could not start the execution: ${inWords(problem, job)}`,
        ...(!isPassing(problem) && { retryable: false }),
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
    return this.#started === null ? null : `${this.#launch.job}/executions/${this.#started.id}`
  }

  // -- its life ------------------------------------------------------------------------------------------------------------------

  async #follow(started: Started): Promise<AttemptResult> {
    const { poller } = this.#parts
    const { job, exec } = this.#launch
    const { attemptId } = this.#assignment
    const wanted = { job, attemptId, id: started.id, since: started.since, slow: exec }
    const watch = poller.watch(wanted, () => this.#wake())
    const release = this.#stopOnAbort(watch)
    try {
      return exec ? await this.#watchExec(watch) : await this.#watch(watch, started)
    } catch (error) {
      await this.#cancel()
      return { ...this.#base(null), state: "failed", error: `could not be followed: ${inWords(errorOf(error), job)}` }
    } finally {
      release()
      watch.close()
    }
  }

  async #watch(watch: Watch, started: Started): Promise<AttemptResult> {
    if (!started.found) await this.#logLink(started)
    const execution = await this.#untilEnd(watch)
    if (execution === null) return this.#stopped()
    const ending = await this.#ending(execution)
    if (this.#told && ending.state !== "success") return this.#stopped(ending)
    const base = this.#base(execution, ending)
    if (ending.state === "success") return { ...base, state: "success", output: { inline: null } }
    return { ...base, state: ending.state, ...(ending.error !== null && { error: ending.error }) }
  }

  /** What the container says goes to Cloud Logging: the log of the attempt tells where. */
  async #logLink({ execution }: Started): Promise<void> {
    const { objects } = this.#parts
    const { prefix, secrets } = this.#assignment
    const name = this.#name ?? ""
    const sink = openLog(objects, prefix, { secrets })
    await sink.write("stderr", `ork: ${name} writes its log to Cloud Logging: ${logLink(name, execution)}\n`)
    await sink.close()
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
      this.#wake()
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
        if (phase !== "waiting" && phase !== "running") return execution
      }
      if (misses >= MAX_MISSES) return DELETED
      if (problem !== null && !isPassing(problem.error) && clock.now() - problem.since > REFUSED_MS) throw problem.error
      await this.#rest()
    }
  }

  #begin(execution: Execution): void {
    // One that was cancelled before it began never did.
    if (this.#startedAt !== null || (phaseOf(execution) === "cancelled" && !execution.startTime)) return
    this.#startedAt = this.#instant(execution.startTime)
    // With `ork exec` the status in the object store tells.
    if (!this.#launch.exec) this.#context.started({ at: this.#startedAt, externalId: this.#name ?? "" })
  }

  /** By Google's clock, but neither before the launch nor in the future. */
  #instant(time: Execution["startTime"]): number {
    const now = this.#parts.clock.now()
    return Math.min(now, Math.max(this.#startedAt ?? this.#started?.since ?? now, instantOf(time) ?? now))
  }

  /** Until something is to be done. */
  #rest(): Promise<void> {
    return new Promise((resolve) => {
      this.#rouse = () => {
        this.#woken = false
        this.#rouse = () => {}
        resolve()
      }
      if (this.#woken) this.#rouse()
    })
  }

  #wake(): void {
    this.#woken = true
    this.#rouse()
  }

  // -- its end -------------------------------------------------------------------------------------------------------------------

  #stopOnAbort(watch: Watch): () => void {
    const { clock } = this.#parts
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      this.#wake()
      if (this.#leave) return
      this.#told = true
      void this.#cancel().finally(() => watch.soon())
      cancelTimer = clock.after(this.#assignment.graceMs + KILLED_MS, () => {
        this.#gaveUp = true
        this.#wake()
      })
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  /** One that has ended, or is gone, needs no cancelling: Cloud Run then answers 400 or 404. */
  async #cancel(): Promise<void> {
    const name = this.#name
    if (name !== null) await this.#persist(() => this.#parts.api.cancel(name)).catch(() => {})
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
    return stoppedResult(this.#context.signal.reason as StopReason, base, this.#assignment)
  }
}

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
