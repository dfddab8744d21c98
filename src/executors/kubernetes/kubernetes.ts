// The kubernetes executor runs each attempt as a batch/v1 Job that is named after it, with one watch of Jobs and one of pods
// per namespace. A Job outlives the server that created it: creating it again finds it.

import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { environmentProblem } from "../environment.ts"
import { writeSpec } from "../exec/exec.ts"
import { argvOf, type Assignment, type Executor, type LaunchContext, type LeftoverWork } from "../executor.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { Leftovers } from "../remote/leftovers.ts"
import { UsedNames } from "../remote/used-names.ts"
import { describeError, isStatus } from "./api-error.ts"
import { KubernetesAttempt } from "./attempt.ts"
import { Cluster, type ClusterOptions } from "./cluster.ts"
import { containerEnvironment, type JobRequest, MAX_SECRET_BYTES, optionsOf, requestOf, runsExec } from "./job.ts"
import { JobRequests } from "./job-requests.ts"
import type { WatchLog } from "./list-watch.ts"
import { NamespaceWatch } from "./namespace-watch.ts"

export interface KubernetesExecutorOptions extends ClusterOptions {
  objects: ObjectStore
  /** Address of the object store, for containers that run `ork exec`. */
  store: string
  clock: Clock
  log: WatchLog
  /** Time that a finished Job stays in the cluster. */
  ttlMs: number
  /** Remembers the namespaces that were used; exists while a namespace may have Jobs to clean up. */
  folder: string
}

export class KubernetesExecutor implements Executor {
  readonly name = "kubernetes"
  readonly remote = true
  readonly #options: KubernetesExecutorOptions
  readonly #cluster: Cluster
  readonly #requests: JobRequests
  readonly #namespaces = new Map<string, NamespaceWatch>()
  readonly #used: UsedNames
  readonly #leftovers = new Leftovers()

  /** Throws when no cluster is configured. */
  constructor(options: KubernetesExecutorOptions) {
    this.#options = options
    this.#cluster = new Cluster(options)
    this.#used = new UsedNames(options.folder)
    this.#requests = new JobRequests(this.#cluster, options.clock, options.log)
  }

  async stop(): Promise<void> {
    this.#requests.stop()
    for (const namespace of this.#namespaces.values()) namespace.stop()
    this.#namespaces.clear()
    this.#cluster.close()
  }

  async sweep(ended: Parameters<NonNullable<Executor["sweep"]>>[0]): Promise<void> {
    const names = new Set([this.#cluster.namespace, ...this.#namespaces.keys(), ...this.#used.names()])
    const sources = [...names].map((namespace) => ({
      name: `namespace ${namespace}`,
      list: () => this.#leftoversIn(namespace),
      remove: async ({ attemptId }: LeftoverWork): Promise<void> => {
        await this.#requests.remove(namespace, attemptId, AbortSignal.abort())
      },
    }))
    await this.#leftovers.sweep(sources, ended, describeError)
  }

  async #leftoversIn(namespace: string): Promise<LeftoverWork[]> {
    const watch = this.#namespaces.get(namespace)
    try {
      const unfinished = await this.#requests.unfinished(namespace)
      if (watch === undefined && unfinished.length === 0) this.#used.remove(namespace)
      return unfinished.filter(({ attemptId }) => watch?.isTracked(attemptId) !== true)
    } catch (error) {
      // A namespace that no task of this process uses may be closed to it.
      if (watch === undefined && isStatus(error, 403)) return []
      throw error
    }
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
      return await new KubernetesAttempt({
        assignment,
        context,
        objects,
        clock,
        exec: runsExec(assignment),
        cluster: this.#cluster,
        requests: this.#requests,
        namespace: this.#namespace(options.namespace ?? this.#cluster.namespace),
        request,
      }).run()
    } catch (error) {
      return failed(`could not run: ${messageOf(error)}`)
    }
  }

  async #request(assignment: Assignment): Promise<JobRequest> {
    const { objects, store, ttlMs } = this.#options
    const exec = runsExec(assignment) ? (await writeSpec(objects, assignment, { store })).environment : null
    return requestOf({ assignment, ttlMs, exec })
  }

  #namespace(name: string): NamespaceWatch {
    const existing = this.#namespaces.get(name)
    if (existing !== undefined) return existing
    const { clock, log } = this.#options
    const namespace = new NamespaceWatch(name, { cluster: this.#cluster, clock, log })
    this.#namespaces.set(name, namespace)
    this.#used.add(name)
    return namespace
  }
}

/** Clusters store no object of more than 1.5 MiB. */
const MAX_JOB_BYTES = 1 << 20

/** Returns why the cluster would reject the request; null when it would not. */
const problemOf = (assignment: Assignment, { job, secret }: JobRequest): string | null => {
  const variables = Object.entries(containerEnvironment(assignment)).map(([name, value]) => `${name}=${value}`)
  const problem = environmentProblem(variables, argvOf(assignment.command))
  if (problem !== null) return problem
  const bytes = Buffer.byteLength(JSON.stringify(job))
  if (bytes > MAX_JOB_BYTES) {
    return `its command and variables make a Job of ${bytes} bytes, and a cluster accepts ${MAX_JOB_BYTES}: pass large values as input instead`
  }
  const size = Object.values(secret ?? {}).reduce((sum, value) => sum + Buffer.byteLength(value), 0)
  const isTooLarge = size > MAX_SECRET_BYTES || (assignment.inputFiles !== undefined && !runsExec(assignment))
  return isTooLarge
    ? `its input and secrets have more than ${MAX_SECRET_BYTES} bytes, which a pod does not accept: pass an address instead, or use kubernetes.exec`
    : null
}
