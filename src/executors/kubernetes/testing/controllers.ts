// What makes the fake cluster move: a Job gets a pod, the pod is scheduled, pulled, started, ended; conditions, owners and deletions as a
// real cluster has them. Statuses come in the small steps that a kubelet makes.

import { setTimeout as sleep } from "node:timers/promises"
import { PodProcess } from "./pod-process.ts"
import { planOf, type PodSpec, waitingFor } from "./pod-plan.ts"
import type { ApiObject, ObjectStorage } from "./store.ts"

const TRACKING = "batch.kubernetes.io/job-tracking"
const STEP_MS = 5

interface Condition {
  type: string
  status: string
  reason?: string
  message?: string
}

export class Controllers {
  readonly processes = new Map<string, PodProcess>()
  /** Every pod that was ever started, by the name of its Job. */
  readonly starts: string[] = []
  schedulable = true
  /** No pods are made: somebody forbids them. */
  forbidPods: string | null = null
  /** Pods get no process; they run until `finish`. */
  hollow = false
  readonly #storage: ObjectStorage
  readonly #ends = new Map<string, (code: number) => void>()
  readonly #hollowEnds = new Map<string, Promise<number>>()
  #stopped = false
  #tick = 0

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    storage.listen(({ type, kind, object }) => {
      if (kind === "jobs" && type === "ADDED") void this.#job(object)
    })
  }

  stop(): void {
    this.#stopped = true
    for (const process of this.processes.values()) {
      process.kill("SIGKILL")
      process.remove()
    }
  }

  /** Fixed width, as kubelets write them, and often the same for several lines. */
  readonly now = (): string => {
    this.#tick += 1
    return new Date().toISOString().replace("Z", `${String(Math.floor(this.#tick / 3) % 1000).padStart(3, "0")}000Z`)
  }

  podOf(jobName: string): ApiObject | undefined {
    return this.#storage.list("pods", "work").find(({ metadata }) => metadata.labels?.["job-name"] === jobName)
  }

  hollowEnd(pod: ApiObject): Promise<unknown> {
    return this.#hollowEnds.get(pod.metadata.name) ?? Promise.resolve()
  }

  finish(jobName: string, code = 0): void {
    this.#ends.get(jobName)?.(code)
  }

  condition(pod: ApiObject, condition: Condition): ApiObject {
    return this.#storage.update("pods", pod, (copy) => {
      const { conditions = [] } = copy.status as { conditions?: Condition[] }
      copy.status = { ...copy.status, conditions: [...conditions.filter(({ type }) => type !== condition.type), condition] }
    })
  }

  /** As the kubelet does when its node runs short. */
  async evict(jobName: string): Promise<void> {
    const pod = this.podOf(jobName)!
    this.condition(pod, {
      type: "DisruptionTarget",
      status: "True",
      reason: "TerminationByKubelet",
      message: "The node was low on resource: memory.",
    })
    this.#storage.update("pods", pod, (copy) => {
      copy.status = { ...copy.status, phase: "Failed", reason: "Evicted", message: "The node was low on resource: memory." }
    })
    this.processes.get(pod.metadata.name)?.kill("SIGKILL")
  }

  outOfMemory(jobName: string): void {
    const process = this.processes.get(this.podOf(jobName)!.metadata.name)!
    process.reason = "OOMKilled"
    process.kill("SIGKILL")
  }

  exceedDeadline(jobName: string): void {
    const job = this.#storage.get("jobs", "work", jobName)!
    const failed = { status: "True", reason: "DeadlineExceeded", message: "Job was active longer than specified deadline" }
    this.#conditions(job, { type: "FailureTarget", ...failed })
    const pod = this.podOf(jobName)
    if (pod !== undefined) void this.deletePod(pod).then(() => this.#conditions(job, { type: "Failed", ...failed }))
  }

  async deleteJob(job: ApiObject, policy: string | null): Promise<void> {
    const pods = this.#storage.list("pods", job.metadata.namespace).filter(({ metadata }) => owned(metadata, job))
    const secrets = this.#storage.list("secrets", job.metadata.namespace).filter(({ metadata }) => owned(metadata, job))
    if (policy === "Foreground") {
      this.#storage.update("jobs", job, ({ metadata }) => {
        metadata.deletionTimestamp = new Date().toISOString()
        metadata.finalizers = ["foregroundDeletion"]
      })
      await Promise.all(pods.map((pod) => this.deletePod(pod)))
    }
    for (const secret of secrets) this.#storage.remove("secrets", secret)
    this.#storage.remove("jobs", job)
    if (policy !== "Foreground" && policy !== "Orphan") for (const pod of pods) void this.deletePod(pod)
  }

  async deletePod(pod: ApiObject): Promise<void> {
    const { name } = pod.metadata
    const { terminationGracePeriodSeconds: grace = 30 } = pod.spec as unknown as PodSpec
    this.#storage.update("pods", pod, ({ metadata }) => (metadata.deletionTimestamp = new Date().toISOString()))
    const process = this.processes.get(name)
    if (process !== undefined && process.exited === null) {
      const ended = new Promise<void>((resolve) => process.listen(() => process.exited !== null && resolve()))
      process.kill("SIGTERM")
      const timer = setTimeout(() => process.kill("SIGKILL"), grace * 1000)
      await ended
      clearTimeout(timer)
      await sleep(STEP_MS)
    }
    this.finish(pod.metadata.labels?.["job-name"] ?? "", 143)
    await sleep(STEP_MS)
    this.#storage.remove("pods", pod)
  }

  // -- the Job controller ----------------------------------------------------------------------------------------------------------

  async #job(job: ApiObject): Promise<void> {
    await sleep(STEP_MS)
    const { namespace, name, uid } = job.metadata
    if (this.forbidPods !== null) {
      this.#storage.add("events", namespace, {
        metadata: { name: `${name}.1` },
        type: "Warning",
        involvedObject: { name },
        reason: "FailedCreate",
        message: this.forbidPods,
      })
      return
    }
    const { template } = job.spec as unknown as { template: { metadata: ApiObject["metadata"]; spec: object } }
    const pod = this.#storage.add("pods", namespace, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: `${name}-${Math.random().toString(36).slice(2, 7).padEnd(5, "0")}`,
        annotations: template.metadata.annotations ?? {},
        labels: { ...template.metadata.labels, "job-name": name, "batch.kubernetes.io/job-name": name },
        ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid, controller: true }],
        finalizers: [TRACKING],
      },
      spec: template.spec,
      status: { phase: "Pending", conditions: [] },
    })
    if (pod !== null) await this.#pod(pod, job)
  }

  #conditions(job: ApiObject, ...added: Condition[]): void {
    this.#storage.update("jobs", job, (copy) => {
      const { conditions = [] } = (copy.status ?? {}) as { conditions?: Condition[] }
      copy.status = { ...copy.status, conditions: [...conditions, ...added] }
    })
  }

  // -- scheduler and kubelet -------------------------------------------------------------------------------------------------------

  #gone(pod: ApiObject): boolean {
    const known = this.#storage.get("pods", pod.metadata.namespace, pod.metadata.name)
    return this.#stopped || known === undefined || known.metadata.deletionTimestamp !== undefined
  }

  async #pod(pod: ApiObject, job: ApiObject): Promise<void> {
    if (!this.schedulable) {
      const message = "0/3 nodes are available: 3 Insufficient cpu."
      this.condition(pod, { type: "PodScheduled", status: "False", reason: "Unschedulable", message })
    }
    while (!this.schedulable) {
      await sleep(STEP_MS)
      if (this.#gone(pod)) return
    }
    this.condition(pod, { type: "PodScheduled", status: "True" })
    let shown = ""
    for (;;) {
      if (this.#gone(pod)) return
      const waiting = waitingFor(pod, this.#storage, shown)
      if (waiting === null) break
      if (waiting.reason !== shown) this.#container(pod, "Pending", { waiting })
      shown = waiting.reason
      await sleep(STEP_MS)
    }
    await this.#start(pod, job)
  }

  async #start(pod: ApiObject, job: ApiObject): Promise<void> {
    const { name } = pod.metadata
    this.starts.push(job.metadata.name)
    const startedAt = new Date().toISOString()
    if (this.hollow) {
      const ended = new Promise<number>((resolve) => this.#ends.set(job.metadata.name, resolve))
      this.#hollowEnds.set(name, ended)
      this.#container(pod, "Running", { running: { startedAt } })
      return this.#ended(pod, job, { exitCode: await ended, startedAt })
    }
    const process = new PodProcess(planOf(pod, this.#storage), this.now)
    this.processes.set(name, process)
    const ended = new Promise<void>((resolve) => process.listen(() => process.exited !== null && resolve()))
    if (process.exited === null) this.#container(pod, "Running", { running: { startedAt } })
    await ended
    await sleep(STEP_MS)
    if (this.#stopped) return
    const { reason, message } = process
    const exitCode = process.exited!.code
    await this.#ended(pod, job, { exitCode, startedAt, message, reason: reason ?? (exitCode === 0 ? "Completed" : "Error") })
  }

  async #ended(pod: ApiObject, job: ApiObject, terminated: { exitCode: number; [field: string]: unknown }): Promise<void> {
    const well = terminated.exitCode === 0
    const { status } = this.#storage.get("pods", pod.metadata.namespace, pod.metadata.name) ?? {}
    if (status?.["reason"] === "Evicted") return
    this.#container(pod, well ? "Succeeded" : "Failed", { terminated })
    await sleep(STEP_MS)
    if (well) {
      this.#conditions(job, { type: "SuccessCriteriaMet", status: "True", reason: "CompletionsReached" })
      this.#conditions(job, { type: "Complete", status: "True", reason: "CompletionsReached" })
    } else {
      const failed = { status: "True", reason: "BackoffLimitExceeded", message: "Job has reached the specified backoff limit" }
      this.#conditions(job, { type: "FailureTarget", ...failed })
      this.#conditions(job, { type: "Failed", ...failed })
    }
  }

  #container(pod: ApiObject, phase: string, state: object): void {
    this.#storage.update("pods", pod, (copy) => {
      copy.status = {
        ...copy.status,
        phase,
        containerStatuses: [{ name: "task", ready: "running" in state, restartCount: 0, image: "", imageID: "", state }],
      }
    })
  }
}

const owned = (metadata: ApiObject["metadata"], job: ApiObject): boolean =>
  metadata.ownerReferences?.some(({ uid }) => uid === job.metadata.uid) === true
