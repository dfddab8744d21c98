// The controllers of the fake cluster, and the actions that tests trigger.

import { JobController } from "./job-controller.ts"
import { Kubelet } from "./kubelet.ts"
import type { ApiObject, ObjectStorage } from "./object-storage.ts"

export const NAMESPACE = "work"

export class Controllers {
  readonly jobs: JobController
  readonly kubelet: Kubelet
  readonly #storage: ObjectStorage

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    this.jobs = new JobController(storage)
    this.kubelet = new Kubelet(storage)
  }

  stop(): void {
    this.jobs.stop()
    this.kubelet.stop()
  }

  job(name: string): ApiObject | undefined {
    return this.#storage.get("jobs", NAMESPACE, name)
  }

  podOf(jobName: string): ApiObject | undefined {
    return this.#storage.list("pods", NAMESPACE).find(({ metadata }) => metadata.labels?.["job-name"] === jobName)
  }

  phaseOf(jobName: string): unknown {
    return this.podOf(jobName)?.status?.["phase"]
  }

  /** Deletes an object as a user of the cluster does. */
  delete(kind: "jobs" | "pods", name: string, policy = "Background"): void {
    const object = this.#storage.get(kind, NAMESPACE, name)!
    if (kind === "jobs") this.jobs.deleteJob(object, policy)
    else this.jobs.deletePod(object)
  }
}
