// The scheduler and the kubelet of the fake cluster: a pod is bound, its container made, started and ended, its statuses coming in the small
// steps that a real one makes. A pod that is deleted is killed first; its container's end is seen before the pod goes.

import { setTimeout as sleep } from "node:timers/promises"
import type { Condition } from "./job-controller.ts"
import { planOf, type PodSpec, waitingFor } from "./pod-plan.ts"
import { PodProcess } from "./pod-process.ts"
import { type ApiObject, type ObjectStorage, timestamp } from "./store.ts"

const STEP_MS = 3
const NODE = "node-1"

type Terminated = { exitCode: number; reason: string; message?: string; startedAt: string | null; finishedAt: string | null }

export class Kubelet {
  readonly processes = new Map<string, PodProcess>()
  /** Every pod that was ever started, by the name of its Job. */
  readonly starts: string[] = []
  schedulable = true
  /** Pods get no process; they run until `finish`. */
  hollow = false
  /** Nothing is heard of the node any more. */
  lost = false
  readonly #storage: ObjectStorage
  readonly #ends = new Map<string, (code: number) => void>()
  readonly #hollowEnds = new Map<string, Promise<number>>()
  /** Why a pod is being ended, in the words that its status gets. */
  readonly #evicted = new Map<string, { reason: string; message: string }>()
  #stopped = false
  #tick = 0

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    storage.listen(({ type, kind, object }) => {
      if (kind !== "pods") return
      if (type === "ADDED") void this.#run(object)
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

  /** Fixed width, as kubelets write them, and often the same for several lines. */
  readonly now = (): string => {
    this.#tick += 1
    return new Date().toISOString().replace("Z", `${String(Math.floor(this.#tick / 3) % 1000).padStart(3, "0")}000Z`)
  }

  hollowEnd(pod: ApiObject): Promise<unknown> {
    return this.#hollowEnds.get(pod.metadata.name) ?? Promise.resolve()
  }

  finish(jobName: string, code = 0): void {
    this.#ends.get(jobName)?.(code)
  }

  condition(pod: ApiObject, condition: Condition): ApiObject {
    return this.#storage.update("pods", pod, (copy) => {
      const { conditions = [] } = (copy.status ?? {}) as { conditions?: Condition[] }
      copy.status = { ...copy.status, conditions: [...conditions.filter(({ type }) => type !== condition.type), condition] }
    })
  }

  /** As it does when its node runs short: it says so, then kills, then the pod has failed. */
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

  #now(pod: ApiObject): ApiObject | undefined {
    return this.#stopped ? undefined : this.#storage.now("pods", pod)
  }

  async #run(pod: ApiObject): Promise<void> {
    if (!(await this.#bound(pod))) return
    let shown = ""
    for (;;) {
      await sleep(STEP_MS)
      const known = this.#now(pod)
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

  /** False: it is gone before any node had it. */
  async #bound(pod: ApiObject): Promise<boolean> {
    const { nodeSelector } = pod.spec as unknown as PodSpec
    const unfit = nodeSelector !== undefined && Object.keys(nodeSelector).length > 0
    const why = unfit ? "1 node(s) didn't match Pod's node affinity/selector." : "1 Insufficient cpu."
    for (let told = false; unfit || !this.schedulable; told = true) {
      const message = `0/1 nodes are available: ${why}`
      if (!told) this.condition(pod, { type: "PodScheduled", status: "False", reason: "Unschedulable", message })
      await sleep(STEP_MS)
      if (this.#now(pod) === undefined) return false
    }
    const conditions = [{ type: "PodScheduled", status: "True" }]
    const bound = this.#storage.update("pods", pod, (copy) => {
      copy.spec = { ...copy.spec, nodeName: NODE }
      copy.status = { ...copy.status, conditions }
    })
    const made = { conditions: [...conditions, { type: "PodReadyToStartContainers", status: "False" }] }
    this.#container(bound, "Pending", { waiting: { reason: "ContainerCreating" } }, made)
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
      const ended = new Promise<number>((resolve) => this.#ends.set(job, resolve))
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
    if (phase === "Failed" || phase === "Succeeded") this.#gone(pod)
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
    if (this.lost || this.#now(pod) === undefined) return
    this.#container(pod, phase, { terminated }, evicted)
    const known = this.#now(pod)
    if (known?.metadata.deletionTimestamp !== undefined) this.#gone(known)
  }

  /** Nothing of it runs any more: its grace is over. */
  #gone(pod: ApiObject): void {
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
