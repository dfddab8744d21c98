// The kubernetes executor: each attempt a batch/v1 Job named after it, one watch of Jobs and one of pods for all of them. A Job outlives the
// server that made it: creating it again finds it.

import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { environmentProblem } from "../environment.ts"
import { specOf } from "../exec/exec.ts"
import type { Assignment, Executor, LaunchContext } from "../executor.ts"
import { Cluster, type ClusterOptions } from "./cluster.ts"
import { containerEnvironment, MAX_SECRET, optionsOf, type Request, requestOf } from "./job.ts"
import { JobRequests } from "./job-requests.ts"
import type { WatchLog } from "./list-watch.ts"
import { NamespaceWatch } from "./namespace-watch.ts"
import { JobRun } from "./run.ts"

export interface KubernetesExecutorOptions extends ClusterOptions {
  objects: ObjectStore
  /** Address of the object store, for containers that run `ork exec`. */
  store: string
  clock: Clock
  log: WatchLog
  /** How long a Job stays after its end. */
  ttlMs: number
}

export class KubernetesExecutor implements Executor {
  readonly name = "kubernetes"
  readonly remote = true
  readonly #options: KubernetesExecutorOptions
  readonly #cluster: Cluster
  readonly #requests: JobRequests
  readonly #spaces = new Map<string, NamespaceWatch>()

  /** Throws when there is no cluster to speak to. */
  constructor(options: KubernetesExecutorOptions) {
    this.#options = options
    this.#cluster = new Cluster(options)
    this.#requests = new JobRequests(this.#cluster, options.clock)
  }

  async stop(): Promise<void> {
    for (const space of this.#spaces.values()) space.stop()
    this.#spaces.clear()
    this.#cluster.close()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { objects, clock } = this.#options
    const options = optionsOf(assignment)
    const failed = (error: string, retryable?: false): AttemptResult => ({
      state: "failed",
      startedAt: null,
      finishedAt: clock.now(),
      error,
      ...(retryable === false && { retryable }),
    })
    try {
      const request = await this.#request(assignment)
      const problem = problemOf(assignment, request)
      if (problem !== null) return failed(`could not start: ${problem}`, false)
      const space = this.#space(options.namespace ?? this.#cluster.namespace)
      const parts = { cluster: this.#cluster, requests: this.#requests, objects, clock }
      return await new JobRun(parts, space, assignment, context, { request, exec: options.exec === true }).run()
    } catch (error) {
      return failed(`could not run: ${messageOf(error)}`)
    }
  }

  async #request(assignment: Assignment): Promise<Request> {
    const { objects, store, ttlMs } = this.#options
    const exec = optionsOf(assignment).exec === true ? (await specOf(objects, assignment, { store })).environment : null
    return requestOf({ assignment, ttlMs, exec })
  }

  #space(name: string): NamespaceWatch {
    const known = this.#spaces.get(name)
    if (known !== undefined) return known
    const { clock, log } = this.#options
    const space = new NamespaceWatch(name, { cluster: this.#cluster, clock, log })
    this.#spaces.set(name, space)
    return space
  }
}

/** A cluster stores no object of more than 1.5 MiB. */
const MAX_JOB = 1 << 20

const problemOf = (assignment: Assignment, { job, secret }: Request): string | null => {
  const { command } = assignment
  const variables = Object.entries(containerEnvironment(assignment)).map(([name, value]) => `${name}=${value}`)
  const argv = command === null ? [] : "argv" in command ? command.argv : [command.shell]
  const problem = environmentProblem(variables, argv)
  if (problem !== null) return problem
  const bytes = Buffer.byteLength(JSON.stringify(job))
  if (bytes > MAX_JOB) {
    return `its command and variables make a Job of ${bytes} bytes, and a cluster takes ${MAX_JOB}: pass large values as input instead`
  }
  const size = Object.values(secret ?? {}).reduce((sum, value) => sum + Buffer.byteLength(value), 0)
  return size <= MAX_SECRET
    ? null
    : `its input and secrets of ${size} bytes are more than the ${MAX_SECRET} that a pod can be given: pass an address instead, or use kubernetes.exec`
}
