// Changes of runs on behalf of people: trigger, cancel, pause, retry, remove, override an outcome. Every change wakes the loop, also
// when the call fails: the commit may have succeeded.

import { type CancelStore, cancelRun } from "../waiting/cancel-run.ts"
import { removeRun } from "./retention.ts"
import type { Engine } from "../engine.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { Problem } from "../../core/model/problems.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { lastIndex, taskDisplayName } from "../../core/model/task-path.ts"
import { bindParams } from "../../core/rules/runs/params.ts"
import { planStepRetry } from "./step-retry.ts"
import type { RetryRequest, StepKey } from "../../core/rules/runs/retry-plan.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { WorkflowRow } from "../../store/contract/catalog.ts"
import { currentActor, describeAction } from "../../store/contract/audit-scope.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { NewSignal, SignalOutcome } from "../../store/contract/functions.ts"
import type { InstanceKey, InstanceRow, RunViewStore } from "../../store/contract/run-view.ts"
import type { StatsStore } from "../../store/contract/stats.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"

export interface RunServiceOptions {
  engine: Pick<Engine, "trigger" | "cancel" | "setPaused" | "planRetry" | "retry">
  store: CancelStore & Pick<Store, "removeRun"> & Pick<StatsStore, "overrideOutcome"> & Pick<RunViewStore, "listInstances">
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

const INSTANCES_PAGE = 1000
/** Names of a plan that a caller gets. */
const MAX_NAMES = 1000

const firstNames = (names: string[]): string[] =>
  names.length <= MAX_NAMES ? names : [...names.slice(0, MAX_NAMES), `and ${names.length - MAX_NAMES} more`]

export type TriggerResult = Awaited<ReturnType<Engine["trigger"]>> | { problems: Problem[] }

export class RunService {
  readonly #options: RunServiceOptions

  constructor(options: RunServiceOptions) {
    this.#options = options
  }

  /** Checks the params against the workflow and creates a run. */
  async trigger({ workflow, params, ...request }: RunRequest): Promise<TriggerResult> {
    const bound = bindParams(workflow.compiled, { values: params })
    if (!bound.ok) return { problems: bound.problems }
    describeAction({ target: ([first]: { run: RunRow }[]) => first!.run.id })
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
    return this.#options.engine.setPaused(runId, paused)
  }

  /** Returns what a retry would run again and what it would keep, with the instances of fan-outs that keep their successes. */
  async planRetry(runId: RunId, request: RetryRequest): Promise<{ again: string[]; kept: string[] }> {
    const { engine, store } = this.#options
    const { reset, again, kept } = await engine.planRetry(runId, request)
    const partly = reset.rows.filter(({ extent }) => extent === "failed")
    if (partly.length === 0) return { again: firstNames(again), kept: firstNames(kept) }
    const { nodes } = await store.getVersion((await store.getRun(runId))!.versionId)
    const names = { again: new Map<string, string[]>(), kept: [...kept] }
    for (const { node, path } of partly) {
      const instances = await this.#instancesOf(runId, node, path)
      const nameOf = (instance: { path: string }): string => taskDisplayName(nodes[node]!.name, instance.path)
      const [successes, others] = [true, false].map((success) =>
        instances.filter(({ status }) => (status === "success") === success).map(nameOf),
      )
      names.again.set(taskDisplayName(nodes[node]!.name, path), others!)
      names.kept.push(...successes!)
    }
    return { again: firstNames(again.flatMap((name) => names.again.get(name) ?? [name])), kept: firstNames(names.kept) }
  }

  /** Returns the instances of a fan-out, in the order of their paths. */
  async #instancesOf(runId: RunId, node: number, path: string): Promise<InstanceRow[]> {
    const { store } = this.#options
    const prefix = path === "" ? "" : `${path}.`
    const found: InstanceRow[] = []
    for (let after: InstanceKey = { node, path: prefix }; ;) {
      const page = await store.listInstances({ runId, after, limit: INSTANCES_PAGE })
      const rows = page.filter((row) => row.node === node && row.path.startsWith(prefix))
      found.push(...rows)
      if (rows.length < INSTANCES_PAGE) return found.toSorted((a, b) => lastIndex(a.path) - lastIndex(b.path))
      after = rows.at(-1)!
    }
  }

  retry(runId: RunId, request: RetryRequest): Promise<void> {
    return this.#options.engine.retry(runId, request)
  }

  /** Returns the steps of a durable function that a retry from one of them would run again, and those that it would keep. */
  async planStepRetry(runId: RunId, step: StepKey): Promise<{ again: string[]; kept: string[] }> {
    const { request, again, kept } = await planStepRetry(this.#options.store, runId, step)
    await this.#options.engine.planRetry(runId, request)
    return { again, kept }
  }

  async retryFromStep(runId: RunId, step: StepKey): Promise<void> {
    await this.retry(runId, (await planStepRetry(this.#options.store, runId, step)).request)
  }

  /** Sends a signal to a durable function. */
  signal(signal: NewSignal): Promise<SignalOutcome> {
    return this.#options.store.sendSignal(signal).finally(this.#options.wake)
  }

  /** Removes an ended run with its tasks, logs, outputs and files. */
  async remove(runId: RunId): Promise<void> {
    const run = await this.#options.store.getRun(runId)
    if (run === null) throw new NotFound(`there is no run ${runId}`)
    if (!isRunClosed(run.status) || run.hooksPending > 0) throw new Conflict(`run ${runId} has not ended; cancel it first`)
    await removeRun(this.#options, runId).finally(this.#options.wake)
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
      if (waitingOn?.kind === "workflow") await cancelRun(store, waitingOn.runId as RunId)
    } finally {
      wake()
    }
  }
}
