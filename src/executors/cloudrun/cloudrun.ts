// The cloudrun executor runs each attempt as an execution of an existing Cloud Run job, with the attempt's arguments, variables
// and time limit. One poller observes all executions, and one reader per project reads their logs. An execution outlives the
// server that started it: the next server finds it by the attempt id.

import { messageOf } from "../../core/values/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { writeSpec } from "../exec/exec.ts"
import type { Assignment, Executor, LaunchContext, LeftoverWork } from "../executor.ts"
import { Leftovers } from "../remote/leftovers.ts"
import { UsedNames } from "../remote/used-names.ts"
import { CloudRunApi } from "./api.ts"
import { CloudRunAttempt, type CloudRunParts } from "./attempt.ts"
import { isEnded } from "./classify.ts"
import { LogReader } from "./log-reader.ts"
import { CloudLoggingApi } from "./logging-api.ts"
import { ExecutionPoller } from "./poller.ts"
import { jobName, type JobDefaults, optionsOf, problemOf, requestOf, runsExec } from "./request.ts"
import { type ExecutionName, type JobName, workOf } from "./shapes.ts"
import { Starter } from "./starter.ts"

export interface CloudRunExecutorOptions extends JobDefaults {
  objects: ObjectStore
  /** Address of the object store, for containers that run `ork exec`. */
  store: string
  clock: Clock
  /** Address of the Cloud Run API; empty for Google's own. */
  endpoint: string
  /** Address of the Cloud Logging API; empty for Google's own. */
  loggingEndpoint: string
  /** Remembers the jobs that were used; exists while a job may have executions to clean up. */
  folder: string
}

/** An execution without an attempt of this process. */
interface LeftoverExecution extends LeftoverWork {
  name: ExecutionName
}

export class CloudRunExecutor implements Executor {
  readonly name = "cloudrun"
  readonly remote = true
  readonly #options: CloudRunExecutorOptions
  readonly #parts: CloudRunParts
  readonly #used: UsedNames
  readonly #leftovers = new Leftovers()
  /** Jobs of the attempts that this process follows, by attempt id. */
  readonly #followed = new Map<string, JobName>()

  constructor(options: CloudRunExecutorOptions) {
    this.#options = options
    const { objects, clock, endpoint, loggingEndpoint } = options
    const api = new CloudRunApi({ clock, endpoint })
    const poller = new ExecutionPoller(api, clock)
    const starter = new Starter({ api, poller, objects, clock })
    const reader = new LogReader(new CloudLoggingApi(loggingEndpoint), clock)
    this.#parts = { api, poller, starter, reader }
    this.#used = new UsedNames(options.folder)
  }

  async stop(): Promise<void> {
    this.#parts.poller.stop()
    this.#parts.reader.stop()
    this.#parts.api.close()
  }

  async sweep(ended: Parameters<NonNullable<Executor["sweep"]>>[0]): Promise<void> {
    const sources = this.#used.names().map((job) => ({
      name: job,
      list: () => this.#leftoversOf(job),
      remove: ({ name }: LeftoverExecution) => this.#parts.api.cancel(name),
    }))
    await this.#leftovers.sweep(sources, ended)
  }

  async #leftoversOf(job: JobName): Promise<LeftoverExecution[]> {
    const found: LeftoverExecution[] = []
    for await (const execution of this.#parts.api.listAll(job)) {
      const work = isEnded(execution) ? null : workOf(execution)
      if (work !== null) found.push({ ...work, name: execution.name ?? "" })
    }
    if (found.length === 0 && ![...this.#followed.values()].includes(job)) this.#used.remove(job)
    return found.filter(({ attemptId }) => !this.#followed.has(attemptId))
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { objects, store, clock } = this.#options
    const { container = null } = optionsOf(assignment)
    const exec = runsExec(assignment)
    const failed = (error: string, retryable: boolean): AttemptResult => {
      const at = clock.now()
      return { state: "failed", startedAt: null, finishedAt: at, error, ...(!retryable && { retryable }) }
    }
    let job: string
    try {
      job = jobName(assignment, this.#options)
    } catch (error) {
      return failed(`could not start: ${messageOf(error)}`, false)
    }
    const problem = problemOf(assignment) ?? (exec ? this.#storeProblem() : null)
    if (problem !== null) return failed(`could not start: ${problem}`, false)
    this.#followed.set(assignment.attemptId, job)
    this.#used.add(job)
    try {
      const variables = exec ? (await writeSpec(objects, assignment, { store })).environment : null
      const request = requestOf(job, assignment, variables)
      const launch = { assignment, context, objects, clock, exec, job, request, container }
      return await new CloudRunAttempt(this.#parts, launch).run()
    } catch (error) {
      return failed(`could not run: ${messageOf(error)}`, true)
    } finally {
      this.#followed.delete(assignment.attemptId)
    }
  }

  /** Returns why executions cannot reach the object store. Local files are only visible to a fake of Cloud Run on this machine. */
  #storeProblem(): string | null {
    const { store, endpoint } = this.#options
    return store.startsWith("file:") && !endpoint.startsWith("http:")
      ? "cloudrun.exec needs an object store that the job can reach: set object_store to gs://BUCKET"
      : null
  }
}
