// The scheduler and the kubelet of the fake cluster: binds a pod, creates, starts and ends its container, and updates its
// status in the small steps of a real one. A deleted pod is killed first, and the end of its container is visible before the
// pod disappears.

import { setTimeout as sleep } from "node:timers/promises"
import type { Condition } from "./job-controller.ts"
import { planOf, type PodSpec, waitingFor } from "./pod-plan.ts"
import { PodProcess } from "./pod-process.ts"
import { type ApiObject, type ObjectStorage, timestamp } from "./object-storage.ts"

const STEP_MS = 3
const NODE = "node-1"

type Terminated = { exitCode: number; reason: string; message?: string; startedAt: string | null; finishedAt: string | null }

export class Kubelet {
  readonly processes = new Map<string, PodProcess>()
  /** Names of the Jobs of all pods that were started. */
  readonly starts: string[] = []
  schedulable = true
  /** Runs pods without a process until `finish`. */
  hollow = false
  /** Stops all updates, as for a node that is lost. */
  lost = false
  readonly #storage: ObjectStorage
  readonly #finishers = new Map<string, (code: number) => void>()
  readonly #hollowEnds = new Map<string, Promise<number>>()
  /** Reason and message of evicted pods, for their status. */
  readonly #evicted = new Map<string, { reason: string; message: string }>()
  #stopped = false
  #tick = 0

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    storage.listen(({ type, kind, object }) => {
      if (kind !== "pods") return
      if (type === "ADDED" && object.status?.["phase"] === "Pending") void this.#run(object)
      else if (type === "MODIFIED" && object.metadata.deletionTimestamp !== undefined) this.#kill(object)
    })
  }

  stop(): void {
    this.#stopped = true
    for (const process of this.processes.values()) {
      process.kill("SIGKILL")
      process.remove()
    }
  }

  /** Returns a timestamp of fixed width, as kubelets write them, which is often the same for several lines. */
  readonly now = (): string => {
    this.#tick += 1
    return new Date().toISOString().replace("Z", `${String(Math.floor(this.#tick / 3) % 1000).padStart(3, "0")}000Z`)
  }

  hollowEnd(pod: ApiObject): Promise<unknown> {
    return this.#hollowEnds.get(pod.metadata.name) ?? Promise.resolve()
  }

  finish(jobName: string, code = 0): void {
    this.#finishers.get(jobName)?.(code)
  }

  condition(pod: ApiObject, condition: Condition): ApiObject {
    return this.#storage.update("pods", pod, (copy) => {
      const { conditions = [] } = (copy.status ?? {}) as { conditions?: Condition[] }
      copy.status = { ...copy.status, conditions: [...conditions.filter(({ type }) => type !== condition.type), condition] }
    })
  }

  /** Evicts a pod as on a node that is short of memory: sets a condition, kills the pod, and marks it as failed. */
  evict(pod: ApiObject): void {
    const message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi."
    this.#evicted.set(pod.metadata.name, { reason: "Evicted", message })
    this.condition(pod, { type: "DisruptionTarget", status: "True", reason: "TerminationByKubelet", message })
    this.#end(pod)
  }

  outOfMemory(pod: ApiObject): void {
    const process = this.processes.get(pod.metadata.name)!
    process.reason = "OOMKilled"
    process.kill("SIGKILL")
  }

  #current(pod: ApiObject): ApiObject | undefined {
    return this.#stopped ? undefined : this.#storage.current("pods", pod)
  }

  async #run(pod: ApiObject): Promise<void> {
    if (!(await this.#bind(pod))) return
    let shown = ""
    for (;;) {
      await sleep(STEP_MS)
      const known = this.#current(pod)
      if (known === undefined) return
      if (known.metadata.deletionTimestamp !== undefined) {
        const ended = { exitCode: 137, reason: "ContainerStatusUnknown", startedAt: null, finishedAt: null }
        return this.#ended(known, ended)
      }
      const waiting = waitingFor(known, this.#storage, shown)
      if (waiting === null) break
      if (waiting.reason !== shown) this.#container(known, "Pending", { waiting })
      shown = waiting.reason
    }
    await this.#start(pod)
  }

  /** Binds the pod to the node when that is possible. Resolves with false when it was deleted before. */
  async #bind(pod: ApiObject): Promise<boolean> {
    const { nodeSelector } = pod.spec as unknown as PodSpec
    const unfit = nodeSelector !== undefined && Object.keys(nodeSelector).length > 0
    const why = unfit ? "1 node(s) didn't match Pod's node affinity/selector." : "1 Insufficient cpu."
    for (let reported = false; unfit || !this.schedulable; reported = true) {
      const message = `0/1 nodes are available: ${why}`
      if (!reported) this.condition(pod, { type: "PodScheduled", status: "False", reason: "Unschedulable", message })
      await sleep(STEP_MS)
      if (this.#current(pod) === undefined) return false
    }
    const conditions = [{ type: "PodScheduled", status: "True" }]
    const bound = this.#storage.update("pods", pod, (copy) => {
      copy.spec = { ...copy.spec, nodeName: NODE }
      copy.status = { ...copy.status, conditions }
    })
    const created = { conditions: [...conditions, { type: "PodReadyToStartContainers", status: "False" }] }
    this.#container(bound, "Pending", { waiting: { reason: "ContainerCreating" } }, created)
    return true
  }

  async #start(pod: ApiObject): Promise<void> {
    const { name, labels } = pod.metadata
    const job = labels?.["job-name"] ?? ""
    this.starts.push(job)
    const startedAt = timestamp()
    const end = (exitCode: number, more: Partial<Terminated> = {}): void => {
      const reason = exitCode === 0 ? "Completed" : "Error"
      this.#ended(pod, { exitCode, reason, startedAt, finishedAt: timestamp(), ...more })
    }
    if (this.hollow) {
      const ended = new Promise<number>((resolve) => this.#finishers.set(job, resolve))
      this.#hollowEnds.set(name, ended)
      this.#container(pod, "Running", { running: { startedAt } })
      return end(await ended)
    }
    const process = new PodProcess(planOf(pod, this.#storage), this.now)
    this.processes.set(name, process)
    const ended = new Promise<void>((resolve) => process.listen(() => process.exited !== null && resolve()))
    if (process.exited === null) this.#container(pod, "Running", { running: { startedAt } })
    await ended
    await sleep(STEP_MS)
    const { reason, message } = process
    end(process.exited!.code, { ...(reason !== null && { reason }), ...(message !== "" && { message }) })
  }

  #kill(pod: ApiObject): void {
    if (this.lost || this.#stopped) return
    const { phase } = pod.status ?? {}
    if (phase === "Failed" || phase === "Succeeded") this.#remove(pod)
    else this.#end(pod)
  }

  #end(pod: ApiObject): void {
    const { terminationGracePeriodSeconds: grace = 30 } = pod.spec as unknown as PodSpec
    this.processes.get(pod.metadata.name)?.end(grace * 1000)
    this.finish(pod.metadata.labels?.["job-name"] ?? "", 143)
  }

  #ended(pod: ApiObject, terminated: Terminated): void {
    const evicted = this.#evicted.get(pod.metadata.name)
    const phase = terminated.exitCode === 0 && evicted === undefined ? "Succeeded" : "Failed"
    if (this.lost || this.#current(pod) === undefined) return
    this.#container(pod, phase, { terminated }, evicted)
    const known = this.#current(pod)
    if (known?.metadata.deletionTimestamp !== undefined) this.#remove(known)
  }

  /** Removes a deleted pod whose containers have ended. */
  #remove(pod: ApiObject): void {
    if (pod.metadata.deletionGracePeriodSeconds === 0) return
    const timer = setTimeout(() => this.#storage.delete("pods", pod), STEP_MS)
    timer.unref()
  }

  #container(pod: ApiObject, phase: string, state: object, more: object = {}): void {
    this.#storage.update("pods", pod, (copy) => {
      copy.status = {
        ...copy.status,
        ...more,
        phase,
        containerStatuses: [{ name: "task", ready: "running" in state, restartCount: 0, image: "", imageID: "", state }],
      }
    })
  }
}
