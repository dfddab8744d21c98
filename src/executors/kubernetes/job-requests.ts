// The requests of an attempt: create its Job and Secret, or find them again; delete them; read why the Job does not start.

import type { V1Secret } from "@kubernetes/client-node"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment } from "../executor.ts"
import { backoff, retryTransient } from "../remote/retry.ts"
import { Semaphore } from "../remote/semaphore.ts"
import { ApiError, isStatus, isTransient } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { type JobRequest, secretOf } from "./job.ts"
import type { TrackedAttempt } from "./namespace-watch.ts"
import { corePath, type JobObject, jobName, jobsPath, LABELS, type PodObject } from "./shapes.ts"

/** Requests in flight that create or find something. */
const MAX_CONCURRENT = 32
const CREATE_TRIES = 3
const MAX_RETRY_AFTER_MS = 60_000

export interface JobTarget {
  namespace: string
  assignment: Assignment
  /** Records the objects that the requests return. */
  tracked: TrackedAttempt
}

export class JobRequests {
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #semaphore = new Semaphore(MAX_CONCURRENT)

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster
    this.#clock = clock
  }

  /** Creates the Job and its Secret unless they exist. Resolves with true when the Job existed before. */
  async create(target: JobTarget, request: JobRequest, signal: AbortSignal): Promise<boolean> {
    const { namespace, assignment, tracked } = target
    for (let tries = 1; ; tries++) {
      let found = false
      let job: JobObject | null
      try {
        job = await this.#post<JobObject>(jobsPath(namespace), request.job, signal)
      } catch (error) {
        if (!isStatus(error, 409)) throw error
        found = true
        job = await this.find(target)
      }
      if (job !== null) {
        tracked.job.update(job)
        if (request.secret !== null) {
          await this.#createSecret(namespace, secretOf(assignment, request.secret, job.metadata.uid), signal)
        }
        return found
      }
      if (tries >= CREATE_TRIES) throw new Error(`the job ${jobName(assignment.attemptId)} is deleted as soon as it is created`)
    }
  }

  /** Finds the Job that an earlier request or another server created; null when there is none. */
  async find({ namespace, assignment: { attemptId }, tracked }: JobTarget): Promise<JobObject | null> {
    const name = jobName(attemptId)
    const get = <T>(path: string, query = {}): Promise<T> =>
      this.#retry(undefined, () => this.#semaphore.run(() => this.#cluster.call<T>("GET", path, { query })))
    try {
      const job = await get<JobObject>(`${jobsPath(namespace)}/${name}`)
      if (job.metadata.labels?.[LABELS.attempt] !== attemptId) {
        throw new Error(`the name ${name} is taken by a job that is not Ork's`)
      }
      const pods = await get<{ items: PodObject[] }>(corePath(namespace, "pods"), {
        labelSelector: `${LABELS.attempt}=${attemptId}`,
      })
      for (const pod of pods.items) tracked.pod.update(pod)
      tracked.job.update(job)
      return job
    } catch (error) {
      if (isStatus(error, 404)) return null
      throw error
    }
  }

  /** Deletes the Job. Resolves with false when there was none. */
  async remove(namespace: string, attemptId: string, signal?: AbortSignal): Promise<boolean> {
    const path = `${jobsPath(namespace)}/${jobName(attemptId)}`
    // The cluster deletes the pod before the Job, so that nothing runs once the Job is gone, and the Secret after it.
    const query = { propagationPolicy: "Foreground" }
    try {
      await this.#retry(signal, () => this.#cluster.call("DELETE", path, { query }))
      return true
    } catch (error) {
      if (isStatus(error, 404)) return false
      throw error
    }
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

  async #post<T>(path: string, body: object, signal: AbortSignal): Promise<T> {
    // The server rejects unknown fields instead of dropping them.
    const query = { fieldValidation: "Strict", fieldManager: "ork" }
    return await this.#retry(signal, () => this.#semaphore.run(() => this.#cluster.call<T>("POST", path, { query, body })))
  }

  async #createSecret(namespace: string, secret: V1Secret, signal: AbortSignal): Promise<void> {
    try {
      await this.#post(corePath(namespace, "secrets"), secret, signal)
    } catch (error) {
      if (!isStatus(error, 409)) throw error
    }
  }

  #retry<T>(signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
    return retryTransient({ clock: this.#clock, isTransient, pauseMs, signal }, call)
  }
}

const pauseMs = (failures: number, error: unknown): number => {
  const retryAfterMs = error instanceof ApiError ? error.retryAfterMs : null
  return retryAfterMs === null ? backoff(failures) : Math.min(MAX_RETRY_AFTER_MS, retryAfterMs)
}

interface EventObject {
  message?: string
  lastTimestamp?: string | null
  eventTime?: string | null
}

const timeOf = ({ lastTimestamp, eventTime }: EventObject): number => Date.parse(lastTimestamp ?? eventTime ?? "") || 0
