// Starts the execution of an attempt, once. Cloud Run accepts no name for it, so its variables contain the attempt id, and a
// marker in the object store is written before the request and after the response. A server that finds a marker without a name
// searches the job's executions.

import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment } from "../executor.ts"
import { backoff, delay } from "../remote/retry.ts"
import { Semaphore } from "../remote/semaphore.ts"
import type { CloudRunApi } from "./api.ts"
import { GoogleApiError, errorOf, isRateLimited, isTransient, mayHaveSucceeded } from "./api-error.ts"
import type { ExecutionPoller } from "./poller.ts"
import { type Execution, idOf, type JobName, type RunRequest } from "./shapes.ts"

/** Cloud Run lets a project start a few executions a second. */
const MAX_CONCURRENT_STARTS = 8
/** Time that a service gets to become available. */
const AVAILABLE_TIMEOUT_MS = 600_000
const MAX_PAUSE_MS = 30_000
/** Time that a service gets to show what it has started, after the attempt was stopped. The sweep cancels what appears later. */
const STOPPED_TIMEOUT_MS = 10_000
/** Polls within which a new execution is in the list. */
const MAX_POLLS = 2
/** Polls for an execution that is known to exist. */
const MAX_POLLS_IF_STARTED = 30

export interface StarterParts {
  api: Pick<CloudRunApi, "run">
  poller: ExecutionPoller
  objects: ObjectStore
  clock: Clock
}

export interface StartedExecution {
  /** The job that it runs: an earlier launch may have used another one. */
  job: JobName
  /** Last part of its name. */
  id: string
  /** Time since when it may exist, by the clock of the server. */
  since: number
  /** True when an earlier launch of the attempt started it. */
  found: boolean
}

export interface StartRequest {
  job: JobName
  assignment: Assignment
  request: RunRequest
  signal: AbortSignal
  /** Returns true when another process continues with the attempt. */
  handedOver(): boolean
}

export class Starter {
  readonly #parts: StarterParts
  readonly #semaphore = new Semaphore(MAX_CONCURRENT_STARTS)
  /** Responses in a row that rejected a start because of the rate limit. */
  #rateLimited = 0
  #retryAt = 0

  constructor(parts: StarterParts) {
    this.#parts = parts
  }

  /**
   * Resolves with null when the attempt was stopped and nothing of it runs, or another process continues with it. Rejects with
   * an GoogleApiError, or an error of the object store.
   */
  async start(start: StartRequest): Promise<StartedExecution | null> {
    const { objects, clock } = this.#parts
    const { job, assignment, signal } = start
    const { prefix } = assignment
    const marker = await readMarker(objects, prefix)
    const since = marker?.at ?? clock.now()
    if (marker !== null) {
      const { job: earlierJob, execution: id } = marker
      if (id !== null) return { job: earlierJob, id, since, found: true }
      const execution = await this.#find({ ...start, job: earlierJob }, since, MAX_POLLS)
      if (execution !== null) return await this.#record(prefix, { job: earlierJob, id: idOf(execution), since, found: true })
    }
    if (signal.aborted) return null
    if (marker?.job !== job) await writeMarker(objects, prefix, { job, at: since, execution: null })
    const execution = await this.#run(start, since)
    return execution === null ? null : await this.#record(prefix, { job, id: idOf(execution), since, found: false })
  }

  /** Writes the name to the marker. Ignores errors: the execution runs, and the next server can search for it. */
  async #record(prefix: string, started: StartedExecution): Promise<StartedExecution> {
    const { job, id, since } = started
    await writeMarker(this.#parts.objects, prefix, { job, at: since, execution: id }).catch(() => {})
    return started
  }

  async #run(start: StartRequest, since: number): Promise<Execution | null> {
    const { clock } = this.#parts
    const { signal, handedOver, request } = start
    const until = clock.monotonic() + AVAILABLE_TIMEOUT_MS
    for (let tries = 0; ; tries++) {
      const response = await this.#queue(request, signal)
      if (response === null) return null
      if (!(response instanceof GoogleApiError)) return idOf(response) === "" ? await this.#findStarted(start, since) : response
      if (!isTransient(response)) throw response
      if (!isRateLimited(response)) await delay(clock, backoff(tries, MAX_PAUSE_MS), signal)
      if (handedOver()) return null
      // There must never be two executions.
      const existing = mayHaveSucceeded(response) ? await this.#find(start, since, MAX_POLLS) : null
      if (existing !== null) return existing
      if (signal.aborted) return null
      if (clock.monotonic() > until) throw response
    }
  }

  /** Waits for its turn and sends the request. Resolves with null when aborted before. */
  #queue(request: RunRequest, signal: AbortSignal): Promise<Execution | GoogleApiError | null> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => resolve(null)
      const send = (): Promise<Execution | GoogleApiError | null> => {
        signal.removeEventListener("abort", onAbort)
        return this.#send(request, signal)
      }
      signal.addEventListener("abort", onAbort, { once: true })
      this.#semaphore.run(send).then(resolve, reject)
    })
  }

  /** Sends the request. All starts pause when one is rate limited. Resolves with null when aborted before the request. */
  async #send(request: RunRequest, signal: AbortSignal): Promise<Execution | GoogleApiError | null> {
    const { api, clock } = this.#parts
    for (let left = this.#left(); left > 0 && !signal.aborted; left = this.#left()) await delay(clock, left, signal)
    if (signal.aborted) return null
    const response = await api.run(request, signal).catch(errorOf)
    if (!(response instanceof GoogleApiError) || !isRateLimited(response)) this.#rateLimited = 0
    else if (this.#left() <= 0) this.#retryAt = clock.monotonic() + backoff(this.#rateLimited++, MAX_PAUSE_MS)
    return response
  }

  #left(): number {
    return this.#retryAt - this.#parts.clock.monotonic()
  }

  /** Finds an execution that was started by a request whose response has no name. */
  async #findStarted(start: StartRequest, since: number): Promise<Execution | null> {
    const execution = await this.#find(start, since, MAX_POLLS_IF_STARTED)
    if (execution !== null || start.handedOver()) return execution
    throw new GoogleApiError(null, "Cloud Run has started an execution without returning its name, and does not list it")
  }

  /**
   * Searches for an execution of the attempt; null when there is none after `polls`. Waits for a service that is unavailable, but
   * not for long once the attempt is stopped.
   */
  async #find({ job, assignment, handedOver, signal }: StartRequest, since: number, polls: number): Promise<Execution | null> {
    const { poller, clock } = this.#parts
    const until = clock.monotonic() + AVAILABLE_TIMEOUT_MS
    return await new Promise((resolve, reject) => {
      let cancelTimeout = (): void => {}
      const onAbort = (): void => {
        cancelTimeout = clock.after(STOPPED_TIMEOUT_MS, () => end(() => resolve(null)))
      }
      const end = (settle: () => void): void => {
        watch.close()
        cancelTimeout()
        signal.removeEventListener("abort", onAbort)
        settle()
      }
      if (signal.aborted) onAbort()
      else signal.addEventListener("abort", onAbort, { once: true })
      const watch = poller.watch({ job, attemptId: assignment.attemptId, id: null, since }, () => {
        const { execution, misses, problem } = watch
        if (execution) return end(() => resolve(execution))
        if (misses >= polls || handedOver()) return end(() => resolve(null))
        if (problem !== null && (!isTransient(problem.error) || clock.monotonic() > until)) end(() => reject(problem.error))
      })
    })
  }
}

/** Lies in the object store. The next server continues from it. */
interface Marker {
  job: JobName
  /** Time before the start, by the clock of the server. */
  at: number
  /** Last part of the execution's name; null when not known. */
  execution: string | null
}

/** Returns the key of the marker of a start, outside of the attempt's prefix, whose objects the next server deletes. */
const keyOf = (prefix: string): string => `${prefix.slice(0, -1)}.cloudrun.json`

const readMarker = async (objects: ObjectStore, prefix: string): Promise<Marker | null> => {
  const content = await objects.get(keyOf(prefix))
  return content === null ? null : (JSON.parse(Buffer.from(content).toString("utf8")) as Marker)
}

const writeMarker = (objects: ObjectStore, prefix: string, marker: Marker): Promise<void> =>
  objects.put(keyOf(prefix), JSON.stringify(marker))
