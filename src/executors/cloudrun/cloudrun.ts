// The cloudrun executor: each attempt an execution of an existing Cloud Run job, with the attempt's arguments, variables and time limit. One
// loop looks at all of them, another reads what they say. An execution outlives the server that started it: the next one finds it by the attempt.

import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { specOf } from "../exec/exec.ts"
import type { Assignment, Executor, LaunchContext } from "../executor.ts"
import { CloudRunApi } from "./api.ts"
import { LogReader } from "./log-reader.ts"
import { CloudLoggingApi } from "./logging-api.ts"
import { ExecutionPoller } from "./poller.ts"
import { jobName, optionsOf, type Place, problemOf, requestOf } from "./request.ts"
import { ExecutionRun, type RunParts } from "./run.ts"
import { Starter } from "./starter.ts"

export interface CloudRunExecutorOptions extends Place {
  objects: ObjectStore
  /** Address of the object store, for containers that run `ork exec`. */
  store: string
  clock: Clock
  /** Of the API; empty: Google's own. */
  endpoint: string
  /** The same of Cloud Logging's. */
  loggingEndpoint: string
}

export class CloudRunExecutor implements Executor {
  readonly name = "cloudrun"
  readonly remote = true
  readonly #options: CloudRunExecutorOptions
  readonly #parts: RunParts

  constructor(options: CloudRunExecutorOptions) {
    this.#options = options
    const { objects, clock, endpoint, loggingEndpoint } = options
    const api = new CloudRunApi({ clock, endpoint })
    const poller = new ExecutionPoller(api, clock)
    const starter = new Starter({ api, poller, objects, clock })
    const reader = new LogReader(new CloudLoggingApi(loggingEndpoint), clock)
    this.#parts = { api, poller, starter, reader, objects, clock }
  }

  async stop(): Promise<void> {
    this.#parts.poller.stop()
    this.#parts.reader.stop()
    await this.#parts.api.close()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { objects, store, clock } = this.#options
    const { exec = false, container = null } = optionsOf(assignment)
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
    try {
      const variables = exec ? (await specOf(objects, assignment, { store })).environment : null
      const launch = { job, request: requestOf(job, assignment, variables), exec, container }
      return await new ExecutionRun(this.#parts, assignment, context, launch).run()
    } catch (error) {
      return failed(`could not run: ${messageOf(error)}`, true)
    }
  }

  /** Only a stand-in for Cloud Run on this machine sees its files. */
  #storeProblem(): string | null {
    const { store, endpoint } = this.#options
    return store.startsWith("file:") && !endpoint.startsWith("http:")
      ? "cloudrun.exec needs an object store that the job reaches: set object_store to gs://BUCKET"
      : null
  }
}
