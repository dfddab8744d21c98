// The Job controller and the garbage collector of the fake cluster, which behave like those of Kubernetes 1.32 for Jobs with
// `backoffLimit: 0`: the pod has a tracking finalizer; FailureTarget and SuccessCriteriaMet come first, Failed and Complete
// when no pod runs any more; a deleted pod fails its Job; pods and Secrets of a deleted Job are deleted.

import type { V1PodSpec } from "@kubernetes/client-node"
import { forbiddenBy } from "./pod-security.ts"
import { type ApiObject, type ObjectStorage, timestamp } from "./object-storage.ts"

const TRACKING = "batch.kubernetes.io/job-tracking"
const FOREGROUND = "foregroundDeletion"
const STEP_MS = 3

export interface Condition {
  type: string
  status: string
  reason?: string
  message?: string
}

interface PodTemplate {
  metadata: ApiObject["metadata"]
  spec: Record<string, unknown>
}

const REASONS = {
  deadline: { reason: "DeadlineExceeded", message: "Job was active longer than specified deadline" },
  failed: { reason: "BackoffLimitExceeded", message: "Job has reached the specified backoff limit" },
  succeeded: { reason: "CompletionsReached", message: "Reached expected number of succeeded pods" },
} as const

export class JobController {
  /** Error with which no pods can be created; null when they can. */
  forbidPods: string | null = null
  /** Ignores Jobs and their pods, as if they were suspended. */
  paused = false
  readonly #storage: ObjectStorage
  readonly #due = new Set<string>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #late = new Set<string>()

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    storage.listen(({ type, kind, object }) => {
      if (kind === "jobs") {
        if (type === "DELETED") this.#later(() => this.#collect(object))
        else this.#enqueue(object)
      }
      if (kind === "pods") {
        const { namespace, labels } = object.metadata
        const job = storage.get("jobs", namespace, labels?.["batch.kubernetes.io/job-name"] ?? "")
        if (job !== undefined) this.#enqueue(job)
        else if (type === "MODIFIED") this.#later(() => storage.removeFinalizer("pods", object, TRACKING))
      }
    })
  }

  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
  }

  exceedDeadline(job: ApiObject): void {
    this.#late.add(job.metadata.uid)
    this.#enqueue(job)
  }

  /** Deletes a Job as a request does; in the background when there is no policy. */
  deleteJob(job: ApiObject, policy: string | null): void {
    this.#storage.delete("jobs", job, policy === "Foreground" ? { finalizer: FOREGROUND } : {})
  }

  deletePod(pod: ApiObject): void {
    const { terminationGracePeriodSeconds = 30, nodeName } = pod.spec as {
      terminationGracePeriodSeconds?: number
      nodeName?: string
    }
    const over = ["Failed", "Succeeded"].includes(String(this.#storage.current("pods", pod)?.status?.["phase"]))
    this.#storage.delete("pods", pod, { grace: over || nodeName === undefined ? 0 : terminationGracePeriodSeconds })
  }

  #later(work: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      work()
    }, STEP_MS)
    this.#timers.add(timer)
  }

  #enqueue(job: ApiObject): void {
    const { uid } = job.metadata
    if (this.#due.has(uid)) return
    this.#due.add(uid)
    this.#later(() => {
      this.#due.delete(uid)
      this.#sync(job)
    })
  }

  /** Makes one change at a time, so that watches see each of them: a change enqueues the Job again. */
  #sync(known: ApiObject): void {
    const job = this.#storage.current("jobs", known)
    if (job === undefined) return
    if (this.paused) for (const pod of this.#storage.owned("pods", job)) this.#storage.removeFinalizer("pods", pod, TRACKING)
    if (this.paused && job.metadata.deletionTimestamp === undefined) return
    const pods = this.#storage.owned("pods", job)
    const deleting = job.metadata.deletionTimestamp !== undefined
    if (pods.length === 0) {
      if (deleting) return this.#storage.removeFinalizer("jobs", job, FOREGROUND)
      if (job.status?.["startTime"] === undefined) return this.#createPod(job)
    }
    if (deleting) for (const pod of pods) if (pod.metadata.deletionTimestamp === undefined) this.deletePod(pod)
    const phases = pods.map(({ status }) => String(status?.["phase"]))
    const late = this.#late.has(job.metadata.uid)
    const failed = late || pods.some((pod, i) => phases[i] === "Failed" || (isDeleting(pod) && phases[i] !== "Succeeded"))
    const counted = pods.filter((pod, i) => phases[i] === "Succeeded" || phases[i] === "Failed" || isDeleting(pod))
    const has = (type: string): boolean => conditionsOf(job).some((one) => one.type === type)
    const running = phases.some((phase) => phase === "Running" || phase === "Pending")
    const cause = late ? REASONS.deadline : failed ? REASONS.failed : REASONS.succeeded
    if (has("Failed") || has("Complete")) return
    const decided = has("FailureTarget") || has("SuccessCriteriaMet")
    if (!decided && !failed && counted.length === 0) return
    const failing = has("FailureTarget") || (failed && !decided)
    const [first, last] = failing ? ["FailureTarget", "Failed"] : ["SuccessCriteriaMet", "Complete"]
    if (!decided) {
      this.#condition(job, { type: first, status: "True", ...cause })
      if (late) for (const pod of pods) this.deletePod(pod)
      return
    }
    for (const pod of counted) this.#storage.removeFinalizer("pods", pod, TRACKING)
    if (!running) {
      const { reason, message } = conditionsOf(job).find(({ type }) => type === first)!
      this.#condition(job, { type: last, status: "True", ...(reason && { reason }), ...(message && { message }) })
    }
  }

  #createPod(job: ApiObject): void {
    const { namespace, name, uid } = job.metadata
    const { template } = job.spec as unknown as { template: PodTemplate }
    const forbidden = this.forbidPods ?? forbiddenBy(name, template.spec as unknown as V1PodSpec)
    if (forbidden !== null) {
      this.#storage.add("events", namespace, {
        metadata: { name: `${name}.1` },
        type: "Warning",
        involvedObject: { name },
        reason: "FailedCreate",
        message: `Error creating: ${forbidden}`,
        lastTimestamp: timestamp(),
      })
      return
    }
    this.#storage.update("jobs", job, (copy) => (copy.status = { startTime: timestamp(), active: 1, ready: 0, terminating: 0 }))
    this.#storage.add("pods", namespace, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: `${name}-${Math.random().toString(36).slice(2, 7).padEnd(5, "0")}`,
        generateName: `${name}-`,
        labels: template.metadata.labels,
        ...(template.metadata.annotations !== undefined && { annotations: template.metadata.annotations }),
        ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid, controller: true, blockOwnerDeletion: true }],
        finalizers: [TRACKING],
      },
      spec: {
        ...template.spec,
        serviceAccountName: template.spec["serviceAccountName"] ?? "default",
        preemptionPolicy: "PreemptLowerPriority",
      },
      status: { phase: "Pending", qosClass: "BestEffort" },
    })
  }

  #condition(job: ApiObject, condition: Condition): void {
    this.#storage.update("jobs", job, (copy) => {
      copy.status = { ...copy.status, active: 0, conditions: [...conditionsOf(copy), condition] }
    })
  }

  /** Deletes the pods and Secrets of a deleted Job. */
  #collect(job: ApiObject): void {
    for (const pod of this.#storage.owned("pods", job)) this.deletePod(pod)
    for (const secret of this.#storage.owned("secrets", job)) this.#storage.delete("secrets", secret)
  }
}

const isDeleting = ({ metadata }: ApiObject): boolean => metadata.deletionTimestamp !== undefined

const conditionsOf = ({ status }: ApiObject): Condition[] => (status?.["conditions"] ?? []) as Condition[]
