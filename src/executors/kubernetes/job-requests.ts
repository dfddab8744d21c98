// The requests of an attempt: create its Job and Secret, or find them again; delete them; read why the Job does not start.

import type { V1Secret } from "@kubernetes/client-node"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment, LeftoverWork } from "../executor.ts"
import { backoff, retryTransient } from "../remote/retry.ts"
import { Semaphore } from "../remote/semaphore.ts"
import { KubernetesApiError, describeError, isStatus, mayHaveSucceeded, DenialWindow } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { type JobRequest, secretOf } from "./job.ts"
import { isSettled } from "./classify.ts"
import { listAll, type WatchLog } from "./list-watch.ts"
import type { TrackedAttempt } from "./namespace-watch.ts"
import { corePath, type JobObject, jobName, jobsPath, LABELS, type PodObject } from "./shapes.ts"

/** Requests in flight that create or find something. */
const MAX_CONCURRENT = 32
const CREATE_TRIES = 3
/** Failures in a row after which a warning is logged. */
const WARN_AFTER = 3
const MAX_RETRY_AFTER_MS = 60_000

export interface JobTarget {
  namespace: string
  assignment: Assignment
  /** Records the objects that the requests return. */
  tracked: TrackedAttempt
}

/** State of the creation of a Job while its request is repeated. */
export interface Creation {
  /** True when the Job may exist. */
  mayExist: boolean
  /** Error of the last request; null when there was none. */
  problem: string | null
}

export class NameTaken extends Error {}

export class JobRequests {
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #log: WatchLog
  readonly #semaphore = new Semaphore(MAX_CONCURRENT)
  readonly #stopped = new AbortController()

  constructor(cluster: Cluster, clock: Clock, log: WatchLog) {
    this.#cluster = cluster
    this.#clock = clock
    this.#log = log
  }

  /** Ends all repetitions. */
  stop(): void {
    this.#stopped.abort()
  }

  /**
   * Creates the Job and its Secret unless they exist. Resolves with true when the Job existed before. Repeats requests until the
   * signal aborts, unless the cluster rejects them for good. `creation.mayExist`: an earlier launch may have created the Job.
   */
  async create(target: JobTarget, request: JobRequest, creation: Creation, signal: AbortSignal): Promise<boolean> {
    const { namespace, assignment } = target
    let job = creation.mayExist ? await this.find(target, signal) : null
    let found = job !== null
    for (let tries = 0; job === null; tries++) {
      if (tries >= CREATE_TRIES) throw new Error(`the job ${jobName(assignment.attemptId)} is deleted as soon as it is created`)
      job = await this.#createJob(target, request, creation, signal)
      if (job !== null) break
      found = true
      job = await this.find(target, signal)
    }
    if (request.secret !== null) {
      await this.#createSecret(namespace, secretOf(assignment, request.secret, job.metadata.uid), signal)
    }
    return found
  }

  /** Resolves with null when the Job exists. */
  async #createJob(
    { namespace, tracked }: JobTarget,
    request: JobRequest,
    creation: Creation,
    signal: AbortSignal,
  ): Promise<JobObject | null> {
    const onFailure = (error: unknown): void => {
      creation.mayExist ||= mayHaveSucceeded(error) || isStatus(error, 409)
      creation.problem = describeError(error)
    }
    try {
      const job = await this.#post<JobObject>(jobsPath(namespace), request.job, signal, onFailure)
      creation.mayExist = true
      tracked.job.update(job)
      return job
    } catch (error) {
      if (isStatus(error, 409)) return null
      throw error
    }
  }

  /** Finds the Job that an earlier request or another server created; null when there is none. Repeats until the signal aborts. */
  async find(target: JobTarget, signal?: AbortSignal): Promise<JobObject | null> {
    const { namespace, assignment, tracked } = target
    const { attemptId } = assignment
    const name = jobName(attemptId)
    const get = <T>(path: string, query = {}): Promise<T> =>
      this.#persist(`find the job ${name}`, signal, () =>
        this.#semaphore.run(() => this.#cluster.call<T>("GET", path, { query })),
      )
    try {
      const job = await get<JobObject>(`${jobsPath(namespace)}/${name}`)
      if (job.metadata.labels?.[LABELS.attempt] !== attemptId) {
        throw new NameTaken(`the name ${name} is taken by a job that is not Ork's`)
      }
      const pods = await get<{ items: PodObject[] }>(corePath(namespace, "pods"), {
        labelSelector: `${LABELS.attempt}=${attemptId}`,
      })
      for (const pod of pods.items) tracked.pods.update(pod)
      tracked.job.update(job)
      return job
    } catch (error) {
      if (isStatus(error, 404)) return null
      throw error
    }
  }

  /** Deletes the Job, and repeats that until the cluster accepts it or the signal aborts. Resolves with false when there was none. */
  async remove(namespace: string, attemptId: string, signal: AbortSignal): Promise<boolean> {
    const path = `${jobsPath(namespace)}/${jobName(attemptId)}`
    // The cluster deletes the pod before the Job, so that nothing runs once the Job is gone, and the Secret after it.
    const query = { propagationPolicy: "Foreground" }
    try {
      await this.#persist(`delete the job ${jobName(attemptId)}`, signal, () => this.#cluster.call("DELETE", path, { query }))
      return true
    } catch (error) {
      if (isStatus(error, 404)) return false
      throw error
    }
  }

  /** Lists the Jobs in a namespace that create or run pods. */
  async unfinished(namespace: string): Promise<LeftoverWork[]> {
    const found: LeftoverWork[] = []
    await listAll<JobObject>(this.#cluster, jobsPath(namespace), this.#stopped.signal, (job) => {
      const {
        [LABELS.run]: runId = "",
        [LABELS.taskId]: taskId = "",
        [LABELS.attempt]: attemptId = "",
      } = job.metadata.labels ?? {}
      if (!isSettled(job)) found.push({ runId, taskId, attemptId })
    })
    return found
  }

  /** Returns the newest warning about a Job or pod; null when there is none or events may not be read. */
  async latestWarning(namespace: string, about: string): Promise<string | null> {
    const query = { fieldSelector: `involvedObject.name=${about},type=Warning` }
    try {
      const { items } = await this.#cluster.call<{ items: EventObject[] }>("GET", corePath(namespace, "events"), { query })
      return items.toSorted((a, b) => timeOf(a) - timeOf(b)).at(-1)?.message ?? null
    } catch {
      return null
    }
  }

  async #post<T>(path: string, body: object, signal: AbortSignal, onFailure: (error: unknown) => void = () => {}): Promise<T> {
    // The server rejects unknown fields instead of dropping them.
    const query = { fieldValidation: "Strict", fieldManager: "ork" }
    const denials = new DenialWindow(this.#clock)
    const isTransient = (error: unknown): boolean => {
      onFailure(error)
      return denials.allows(error)
    }
    return await this.#retry(isTransient, signal, () =>
      this.#semaphore.run(() => this.#cluster.call<T>("POST", path, { query, body })),
    )
  }

  async #createSecret(namespace: string, secret: V1Secret, signal: AbortSignal): Promise<void> {
    try {
      await this.#post(corePath(namespace, "secrets"), secret, signal)
    } catch (error) {
      if (!isStatus(error, 409)) throw error
    }
  }

  /** Repeats a request that must not fail, because a Job would run unnoticed, until it succeeds or answers 404. */
  async #persist<T>(what: string, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
    let failures = 0
    const isTransient = (error: unknown): boolean => {
      if (isStatus(error, 404)) return false
      if (++failures === WARN_AFTER) this.#log.warn({ error: describeError(error) }, `failed to ${what}; trying again`)
      return true
    }
    return await this.#retry(isTransient, signal, call)
  }

  #retry<T>(isTransient: (error: unknown) => boolean, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
    const stopped = this.#stopped.signal
    const either = signal === undefined ? stopped : AbortSignal.any([signal, stopped])
    return retryTransient(
      { clock: this.#clock, isTransient, pauseMs, signal: either, maxTries: Number.POSITIVE_INFINITY },
      call,
    )
  }
}

/** A Retry-After makes a pause longer, but never shorter. */
const pauseMs = (failures: number, error: unknown): number => {
  const retryAfterMs = error instanceof KubernetesApiError ? (error.retryAfterMs ?? 0) : 0
  return Math.max(backoff(failures), Math.min(MAX_RETRY_AFTER_MS, retryAfterMs))
}

interface EventObject {
  message?: string
  lastTimestamp?: string | null
  eventTime?: string | null
}

const timeOf = ({ lastTimestamp, eventTime }: EventObject): number => Date.parse(lastTimestamp ?? eventTime ?? "") || 0
