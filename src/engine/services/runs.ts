// Changes of runs on behalf of people: trigger, cancel, pause, retry, remove, override an outcome. Every change wakes the loop, also
// when the call fails: the commit may have succeeded.

import { removeRun } from "./retention.ts"
import type { Engine } from "../engine.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/model/json.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { Problem } from "../../core/model/problems.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { bindParams } from "../../core/rules/params.ts"
import type { RetryPlan, RetryRequest } from "../../core/rules/retry-plan.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { WorkflowRow } from "../../store/contract/catalog.ts"
import { currentActor, describeChange } from "../../store/contract/audit-scope.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { StatsStore } from "../../store/contract/stats.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"

export interface RunServiceOptions {
  engine: Pick<Engine, "trigger" | "cancel" | "pause" | "planRetry" | "retry">
  store: Pick<Store, "getRun" | "removeRun" | "requestCancel"> & Pick<StatsStore, "overrideOutcome">
  objects: Pick<ObjectStore, "deletePrefix">
  /** Folder that contains the run folders. */
  dataDir: string
  clock: Clock
  random: Random
  wake(): void
}

export interface RunRequest {
  workflow: Pick<WorkflowRow, "id" | "versionId" | "compiled">
  trigger: "manual" | "webhook"
  params: JsonObject
  /** null: the workflow's priority. */
  priority: number | null
  logicalDate: string | null
  idempotencyKey: string | null
}

export type TriggeredRun = Awaited<ReturnType<Engine["trigger"]>> | { problems: Problem[] }

export class RunService {
  readonly #options: RunServiceOptions

  constructor(options: RunServiceOptions) {
    this.#options = options
  }

  /** Checks the params against the workflow and creates a run. */
  async trigger({ workflow, params, ...request }: RunRequest): Promise<TriggeredRun> {
    const bound = bindParams(workflow.compiled, { values: params })
    if (!bound.ok) return { problems: bound.problems }
    describeChange({ target: ([first]: { run: RunRow }[]) => first!.run.id })
    return await this.#options.engine.trigger({
      workflowId: workflow.id,
      versionId: workflow.versionId,
      params: bound.params,
      workingDir: null,
      createdBy: currentActor(),
      ...request,
    })
  }

  cancel(runId: RunId): Promise<void> {
    return this.#options.engine.cancel(runId)
  }

  setPaused(runId: RunId, paused: boolean): Promise<void> {
    return this.#options.engine.pause(runId, paused)
  }

  planRetry(runId: RunId, request: RetryRequest): Promise<Exclude<RetryPlan, { problem: string }>> {
    return this.#options.engine.planRetry(runId, request)
  }

  retry(runId: RunId, request: RetryRequest): Promise<void> {
    return this.#options.engine.retry(runId, request)
  }

  /** Removes an ended run with its tasks, logs, outputs and files. */
  async remove(runId: RunId): Promise<void> {
    const run = await this.#options.store.getRun(runId)
    if (run === null) throw new NotFound(`there is no run ${runId}`)
    if (!isRunClosed(run.status) || run.hooksPending > 0) throw new Conflict(`run ${runId} has not ended; cancel it first`)
    await removeRun(this.#options, runId)
  }

  /** Sets the outcome of a task by hand. Cancels the child run that the task waits on, if any. */
  async overrideOutcome(
    { runId, name, path, waitingOn }: Pick<TaskRow, "runId" | "name" | "path" | "waitingOn">,
    outcome: { status: "success" | "failed"; reason: string },
  ): Promise<void> {
    const { store, wake } = this.#options
    try {
      const result = await store.overrideOutcome({ runId, name, path, ...outcome })
      if (result === "in_flight")
        throw new Conflict(`task ${name} is running; cancel the run, or wait until the task has finished`)
      if (result === "retry_waits")
        throw new Conflict(`the retry of run ${runId} waits for its place; cancel it first, or wait until it has started`)
      if (result === "not_found") throw new NotFound(`run ${runId} no longer has the task ${name}`)
      if (waitingOn?.kind === "workflow") await store.requestCancel(waitingOn.runId as RunId, "cancel")
    } finally {
      wake()
    }
  }
}
