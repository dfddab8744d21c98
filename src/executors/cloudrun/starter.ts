// Starts the execution of an attempt, once. Cloud Run takes no name for it, so the attempt is in its variables, and a marker in the object
// store is written before the request and after the answer: whoever finds the first one alone looks among the job's executions.

import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment } from "../executor.ts"
import { backoff, delay, Turnstile } from "../remote/pacing.ts"
import type { CloudRunApi } from "./api.ts"
import { ApiError, errorOf, isBusy, isPassing, isUnsure } from "./api-error.ts"
import { readMarker, writeMarker } from "./marker.ts"
import type { ExecutionPoller } from "./poller.ts"
import { type Execution, idOf, type JobName, type RunRequest } from "./shapes.ts"

/** Cloud Run lets a project start a few executions a second. */
const STARTS_AT_ONCE = 8
/** A service that is busy or away gets this long. */
const PATIENCE_MS = 600_000
const LAST_PAUSE_MS = 30_000
/** A new execution is in the list within so many looks. */
const LOOKS = 2
/** One that is known to be there. */
const MANY_LOOKS = 30

export interface StarterParts {
  api: Pick<CloudRunApi, "run">
  poller: ExecutionPoller
  objects: ObjectStore
  clock: Clock
}

export interface Started {
  /** Where it is: an earlier launch may have been told another place. */
  job: JobName
  /** The last part of its name. */
  id: string
  /** Since when it may exist. */
  since: number
  /** By an earlier launch of the attempt. */
  found: boolean
}

export interface StartRequest {
  job: JobName
  assignment: Assignment
  request: RunRequest
  signal: AbortSignal
  /** Nobody here is to touch it any more. */
  leave(): boolean
}

export class Starter {
  readonly #parts: StarterParts
  readonly #turnstile = new Turnstile(STARTS_AT_ONCE)
  /** Times in a row that Cloud Run was too busy. */
  #busy = 0
  #restUntil = 0

  constructor(parts: StarterParts) {
    this.#parts = parts
  }

  /** null: it was told to stop, and nothing of it runs, or somebody else goes on. Rejects with an ApiError, or an error of the store. */
  async start(wanted: StartRequest): Promise<Started | null> {
    const { objects, clock } = this.#parts
    const { job, assignment, signal } = wanted
    const { prefix } = assignment
    const marker = await readMarker(objects, prefix)
    const since = marker?.at ?? clock.now()
    if (marker !== null) {
      const { job: place, execution: id } = marker
      if (id !== null) return { job: place, id, since, found: true }
      const execution = await this.#seek({ ...wanted, job: place }, since, LOOKS)
      if (execution !== null) return await this.#keep(place, assignment, execution, since, true)
    }
    if (signal.aborted) return null
    if (marker?.job !== job) await writeMarker(objects, prefix, { job, at: since, execution: null })
    const execution = await this.#run(wanted, since)
    return execution === null ? null : await this.#keep(job, assignment, execution, since, false)
  }

  async #keep(job: JobName, { prefix }: Assignment, execution: Execution, since: number, found: boolean): Promise<Started> {
    const id = idOf(execution)
    // It runs, whatever the store says: whoever does not find its name there looks for it.
    await writeMarker(this.#parts.objects, prefix, { job, at: since, execution: id }).catch(() => {})
    return { job, id, since, found }
  }

  async #run(wanted: StartRequest, since: number): Promise<Execution | null> {
    const { clock } = this.#parts
    const { signal, leave, request } = wanted
    const until = clock.now() + PATIENCE_MS
    for (let tries = 0; ; tries++) {
      const answer = await this.#turnstile.pass(() => this.#send(request, signal))
      if (answer === null) return null
      if (!(answer instanceof ApiError)) return idOf(answer) === "" ? await this.#name(wanted, since) : answer
      if (!isPassing(answer)) throw answer
      if (!isBusy(answer)) await delay(clock, backoff(tries, LAST_PAUSE_MS), signal)
      if (leave()) return null
      // It may be there all the same: never two.
      const there = isUnsure(answer) ? await this.#seek(wanted, since, LOOKS) : null
      if (there !== null) return there
      if (signal.aborted) return null
      if (clock.now() > until) throw answer
    }
  }

  /** Once it is too busy for one, all wait. null: told to stop before it was sent. */
  async #send(request: RunRequest, signal: AbortSignal): Promise<Execution | ApiError | null> {
    const { api, clock } = this.#parts
    for (let left = this.#left(); left > 0 && !signal.aborted; left = this.#left()) await delay(clock, left, signal)
    if (signal.aborted) return null
    const answer = await api.run(request, signal).catch(errorOf)
    if (!(answer instanceof ApiError) || !isBusy(answer)) this.#busy = 0
    else if (this.#left() <= 0) this.#restUntil = clock.now() + backoff(this.#busy++, LAST_PAUSE_MS)
    return answer
  }

  #left(): number {
    return this.#restUntil - this.#parts.clock.now()
  }

  /** It was started, and the answer does not say as what. */
  async #name(wanted: StartRequest, since: number): Promise<Execution | null> {
    const execution = await this.#seek(wanted, since, MANY_LOOKS)
    if (execution !== null || wanted.leave()) return execution
    throw new ApiError(null, "Cloud Run has started an execution without telling its name, and does not list it")
  }

  /** Looks for an execution of the attempt; null: there is none. A service that is away is waited for. */
  async #seek({ job, assignment, leave }: StartRequest, since: number, looks: number): Promise<Execution | null> {
    const { poller, clock } = this.#parts
    const until = clock.now() + PATIENCE_MS
    return await new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        watch.close()
        settle()
      }
      const watch = poller.watch({ job, attemptId: assignment.attemptId, id: null, since }, () => {
        const { execution, misses, problem } = watch
        if (execution) return end(() => resolve(execution))
        if (misses >= looks || leave()) return end(() => resolve(null))
        if (problem !== null && (!isPassing(problem.error) || clock.now() > until)) end(() => reject(problem.error))
      })
    })
  }
}
