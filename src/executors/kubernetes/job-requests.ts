// The few requests that an attempt makes: create its Job (and Secret), or find it again; delete it; ask why it does not begin.

import type { V1Secret } from "@kubernetes/client-node"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment } from "../executor.ts"
import { isStatus } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { type Request, secretOf } from "./job.ts"
import type { Sight } from "./namespace-watch.ts"
import { persist, Turnstile } from "./persist.ts"
import { corePath, type JobObject, jobName, jobsPath, LABELS, type PodObject } from "./shapes.ts"

/** Requests that make something or find it again, at the same time. */
const AT_ONCE = 32
const CREATE_TRIES = 3

export interface Place {
  namespace: string
  assignment: Assignment
  sight: Sight
}

export class JobRequests {
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #turnstile = new Turnstile(AT_ONCE)

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster
    this.#clock = clock
  }

  /** Resolves when the cluster has it, whoever made it; true: it was there before. */
  async make(place: Place, request: Request, signal: AbortSignal): Promise<boolean> {
    const { namespace, assignment, sight } = place
    for (let tries = 1; ; tries++) {
      let found = false
      let job: JobObject | null
      try {
        job = await this.#create<JobObject>(jobsPath(namespace), request.job, signal)
      } catch (error) {
        if (!isStatus(error, 409)) throw error
        found = true
        job = await this.find(place)
      }
      if (job !== null) {
        sight.job.see(job)
        if (request.secret !== null) {
          await this.#makeSecret(namespace, secretOf(assignment, request.secret, job.metadata.uid), signal)
        }
        return found
      }
      if (tries >= CREATE_TRIES) throw new Error(`the job ${jobName(assignment.attemptId)} comes and goes in the cluster`)
    }
  }

  /** What an earlier request of ours made, or a server before this one. null: there is none. */
  async find({ namespace, assignment: { attemptId }, sight }: Place): Promise<JobObject | null> {
    const name = jobName(attemptId)
    const get = <T>(path: string, query = {}): Promise<T> =>
      persist(this.#clock, undefined, () => this.#turnstile.pass(() => this.#cluster.call<T>("GET", path, { query })))
    try {
      const job = await get<JobObject>(`${jobsPath(namespace)}/${name}`)
      if (job.metadata.labels?.[LABELS.attempt] !== attemptId) {
        throw new Error(`the name ${name} is taken by a job that is not Ork's`)
      }
      const pods = await get<{ items: PodObject[] }>(corePath(namespace, "pods"), {
        labelSelector: `${LABELS.attempt}=${attemptId}`,
      })
      for (const pod of pods.items) sight.pod.see(pod)
      sight.job.see(job)
      return job
    } catch (error) {
      if (isStatus(error, 404)) return null
      throw error
    }
  }

  /** False: there was none. */
  async remove(namespace: string, attemptId: string, signal?: AbortSignal): Promise<boolean> {
    const path = `${jobsPath(namespace)}/${jobName(attemptId)}`
    // The Job goes after its pod: when it is gone, nothing of it runs. Its Secret is cleaned up after it.
    const query = { propagationPolicy: "Foreground" }
    try {
      await persist(this.#clock, signal, () => this.#cluster.call("DELETE", path, { query }))
      return true
    } catch (error) {
      if (isStatus(error, 404)) return false
      throw error
    }
  }

  /** What the cluster has to say about a Job or pod that does not begin; null: nothing, or it does not tell us. */
  async complaint(namespace: string, about: string): Promise<string | null> {
    const query = { fieldSelector: `involvedObject.name=${about},type=Warning` }
    try {
      const { items } = await this.#cluster.call<{ items: EventObject[] }>("GET", corePath(namespace, "events"), { query })
      return items.toSorted((a, b) => whenOf(a) - whenOf(b)).at(-1)?.message ?? null
    } catch {
      return null
    }
  }

  async #create<T>(path: string, body: object, signal: AbortSignal): Promise<T> {
    // A misspelt field is refused, not dropped.
    const query = { fieldValidation: "Strict", fieldManager: "ork" }
    return await persist(this.#clock, signal, () =>
      this.#turnstile.pass(() => this.#cluster.call<T>("POST", path, { query, body })),
    )
  }

  async #makeSecret(namespace: string, secret: V1Secret, signal: AbortSignal): Promise<void> {
    try {
      await this.#create(corePath(namespace, "secrets"), secret, signal)
    } catch (error) {
      if (!isStatus(error, 409)) throw error
    }
  }
}

interface EventObject {
  message?: string
  lastTimestamp?: string | null
  eventTime?: string | null
}

const whenOf = ({ lastTimestamp, eventTime }: EventObject): number => Date.parse(lastTimestamp ?? eventTime ?? "") || 0
