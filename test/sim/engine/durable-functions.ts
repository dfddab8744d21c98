// Executes durable functions and the jobs that they call: the product's own replay, with steps that take virtual time. What the steps
// do, and what the functions see of it, is reported to the checks.

import { AsyncLocalStorage } from "node:async_hooks"
import { join } from "node:path"
import type { AttemptResult } from "../../../src/core/model/change.ts"
import { FUNCTION_EXECUTOR } from "../../../src/core/model/function.ts"
import type { Child } from "../../../src/core/model/function-signals.ts"
import { newRunId, type RunId } from "../../../src/core/model/ids.ts"
import type { Json, JsonObject } from "../../../src/core/values/json.ts"
import { DEFAULT_JOB_RETRY } from "../../../src/core/rules/jobs/jobs.ts"
import { cancelChild } from "../../../src/engine/waiting/cancel-run.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../../src/executors/executor.ts"
import { type AnyTask, type AnyWorkflow, signal, workflow } from "../../../src/sdk/definitions.ts"
import type { ChildDefinition } from "../../../src/sdk/durable/activation.ts"
import type { ObjectStore } from "../../../src/objects/objects.ts"
import { ProgramExecutor, type CallingFunction } from "../../../src/sdk/durable/program-executor.ts"
import type { StepContext, StepTools } from "../../../src/sdk/durable/step-tools.ts"
import { childEnd } from "../../../src/sdk/embedded/outcomes.ts"
import { taskNode } from "../../../src/core/model/function-workflow.ts"
import { CancelledError } from "../../../src/sdk/errors.ts"
import { JOB_DEFAULTS } from "../../../src/store/contract/jobs.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import type { LaunchedAttempt } from "../checks/attempt-log.ts"
import { Rng } from "../rng.ts"
import {
  CHILD_FUNCTION,
  CHILD_TASK,
  type ChildInput,
  childTask,
  jobResult,
  type Op,
  type StepOp,
  stepName,
  type Tries,
} from "../scenario/functions.ts"
import type { SimWorkflow } from "../scenario/workflows.ts"
import type { Simulation } from "../simulation.ts"
import type { EngineProcess } from "./engine-process.ts"

const LARGE = "x".repeat(70_000)
const FOREVER = new Promise<never>(() => {})

/** Logs are written to files at once; uploads would take real time. */
const withLocalLogs = (objects: ObjectStore, folder: string): ObjectStore =>
  new Proxy(objects, {
    get: (target, name) => {
      if (name === "localPath") return (key: string) => join(folder, key)
      const member: unknown = Reflect.get(target, name)
      return typeof member === "function" ? (member.bind(target) as unknown) : member
    },
  })

/** Thrown by steps whose try fails. */
class PlannedFailure extends Error {}

export class DurableFunctions implements Executor {
  readonly name = FUNCTION_EXECUTOR
  readonly folderless = true
  readonly #simulation: Simulation
  readonly #process: EngineProcess
  readonly #store: ServerStore
  readonly #executor: ProgramExecutor
  /** The attempt whose code runs. */
  readonly #current = new AsyncLocalStorage<LaunchedAttempt>()
  readonly #child: AnyTask
  readonly #childIds: Rng

  constructor(simulation: Simulation, process: EngineProcess, store: ServerStore) {
    this.#childIds = new Rng("children", simulation.scenario.seed, process.name)
    this.#simulation = simulation
    this.#process = process
    this.#store = store
    const workflows = simulation.scenario.workflows.filter(({ program }) => program !== undefined)
    this.#child = childTask((input) => this.#work(input))
    const definitions = [this.#child, ...workflows.map((each) => this.#definitionOf(each))]
    this.#executor = new ProgramExecutor({
      definitions,
      store,
      objects: withLocalLogs(simulation.objects, join(process.dataDir, "logs")),
      clock: process.clock,
      random: new Rng("functions", simulation.scenario.seed, process.name),
      newChild: ({ kind }) => this.#newChild(kind),
      startChild: (parent, child, definition, input) => this.#startChild(parent, child, definition, input as JsonObject),
      childEnd: (child) => childEnd(store, child),
      cancelChild: (child) => cancelChild(store, child).finally(() => process.engine.wake()),
      wake: () => process.engine.wake(),
    })
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { taskId: id, attemptId, attempt: number, node } = assignment
    if (node.function === CHILD_TASK) {
      this.#simulation.launchJob(this.#process, { id, attemptId, number })
      const result = await this.#executor.launch(assignment, context)
      this.#simulation.jobs.addResult(attemptId)
      return result
    }
    const attempt = this.#simulation.launch(this.#process, assignment)
    this.#simulation.functions.addActivation(attempt)
    const stop = (): void => this.#simulation.stop(attempt, context.signal.reason as StopReason)
    if (context.signal.aborted) stop()
    else context.signal.addEventListener("abort", stop)
    const started: LaunchContext["started"] = (info) => {
      attempt.startedAt ??= this.#process.clock.monotonic()
      context.started(info)
    }
    const watched = { ...context, signal: context.signal, started, progress: context.progress.bind(context) }
    const result = await this.#current.run(attempt, () => this.#executor.launch(assignment, watched))
    context.signal.removeEventListener("abort", stop)
    this.#simulation.finish(attempt, result)
    return result
  }

  // -- children ------------------------------------------------------------------------------------------------------------------------

  #newChild(kind: Child["kind"]): Child {
    return { kind, id: newRunId(this.#process.clock.now(), this.#childIds.hex128()) }
  }

  async #startChild(parent: CallingFunction, child: Child, definition: ChildDefinition, input: JsonObject): Promise<void> {
    const { engine } = this.#process
    if (definition.kind === "task") return await this.#startJob(parent, child.id, input)
    const stored = (await this.#simulation.trackResult(() => this.#process.store.getWorkflow(definition.name)))!
    const run = {
      id: child.id as RunId,
      workflowId: stored.id,
      versionId: stored.versionId,
      trigger: "workflow",
      params: input,
    } as const
    const own = { priority: null, idempotencyKey: null, logicalDate: null, private: false, workingDir: null }
    const task = { ...parent, rootRunId: null, depth: 1, withinSameWorkflow: true }
    await engine.createWithTurn("runs", () => this.#store.createRuns([{ ...run, ...own, parent: task }]))
  }

  async #startJob({ row, step }: CallingFunction, id: string, payload: JsonObject): Promise<void> {
    const { name, queue, priority, retry, timeoutMs } = this.#child
    const { executor, function: called, paramsAsInput, startTimeoutMs } = taskNode(this.#child)
    const fields = { executor, function: called!, paramsAsInput: paramsAsInput!, timeoutMs, startTimeoutMs }
    const own = { id, name, queue, priority, payload, retry, timeoutMs, task: fields, callerRow: row, callerStep: step }
    const job = { ...JOB_DEFAULTS, ...own, dependencies: [], retryPolicy: DEFAULT_JOB_RETRY }
    const created = await this.#process.engine.createWithTurn("jobs", () => this.#store.createJobs([job]))
    if ("rejected" in created && created.rejected !== "exists") throw new Error(`job ${id} was rejected: ${created.rejected}`)
  }

  /** The code of a job that a function has called. */
  async #work({ parent, step, fails }: ChildInput): Promise<string> {
    const rng = new Rng("called", this.#simulation.scenario.seed, parent, step)
    await this.#pass(rng.pick([0, rng.int(1, 200), rng.int(500, 5000)]))
    if (fails) throw new PlannedFailure("the job fails")
    return jobResult(parent, step)
  }

  #pass(ms: number): Promise<void> {
    return new Promise((resolve) => this.#process.clock.after(ms, resolve))
  }

  // -- functions -----------------------------------------------------------------------------------------------------------------------

  #definitionOf({ compiled, program }: SimWorkflow): AnyWorkflow {
    const handler = async (_: unknown, step: StepTools): Promise<Json> => {
      const attempt = this.#current.getStore()!
      const activation = new ProgramRun(this.#simulation, this.#process, attempt, step, this.#child)
      return await activation.sequence(program!, false)
    }
    return workflow(compiled.name, {}, handler as never)
  }
}

/** The program of a function, as one activation plays it. */
class ProgramRun {
  readonly #simulation: Simulation
  readonly #process: EngineProcess
  readonly #attempt: LaunchedAttempt
  readonly #step: StepTools
  readonly #child: AnyTask
  readonly #occurrences = new Map<string, number>()

  constructor(simulation: Simulation, process: EngineProcess, attempt: LaunchedAttempt, step: StepTools, child: AnyTask) {
    this.#simulation = simulation
    this.#process = process
    this.#attempt = attempt
    this.#step = step
    this.#child = child
  }

  async sequence(ops: readonly Op[], isParallel: boolean): Promise<Json[]> {
    const results: Json[] = []
    for (const op of ops) results.push(await this.#perform(op, isParallel))
    return results
  }

  async #perform(op: Op, isParallel: boolean): Promise<Json> {
    switch (op.kind) {
      case "all":
        return await Promise.all(op.ops.map((each) => this.#perform(each, true)))
      case "guard":
        try {
          return await this.sequence(op.ops, isParallel)
        } finally {
          if (this.#step.signal.aborted) await this.#cleanUp(op)
        }
      case "catch":
        try {
          return await this.sequence(op.ops, isParallel)
        } catch (error) {
          if (error instanceof CancelledError) throw error
          return "caught"
        }
      default:
        return await this.#performStep(op, isParallel)
    }
  }

  async #performStep(op: StepOp & Pick<Op, "id">, isParallel: boolean): Promise<Json> {
    const { functions } = this.#simulation
    const name = stepName(op, isParallel)
    const occurrence = this.#occurrences.get(name) ?? 0
    this.#occurrences.set(name, occurrence + 1)
    const key = `${occurrence}/${name}`
    functions.begin(this.#attempt, key)
    try {
      const value = await this.#run(op, name, key)
      if (!this.#process.alive) return await FOREVER
      this.#simulation.check(() => functions.see(this.#attempt, op, key, { value }))
      return value
    } catch (error) {
      if (!this.#process.alive) return await FOREVER
      if (!(error instanceof CancelledError))
        this.#simulation.check(() => functions.see(this.#attempt, op, key, { failed: true }))
      throw error
    }
  }

  async #run(op: StepOp, name: string, key: string): Promise<Json> {
    const step = this.#step
    switch (op.kind) {
      case "run":
        return await step.run<Json>(name, (context) => this.#try(op, key, context, op.isLarge), retriesOf(op))
      case "tx":
        return await step.tx<Json>(
          name,
          async (tx, context) => {
            const entry = this.#begin(key, context)
            await tx.query(`INSERT INTO ${this.#simulation.database.ledger} (entry) VALUES ($1)`, [
              `${this.#attempt.runId} ${key}`,
            ])
            if (context.attempt <= op.failures) return this.#fail(key)
            return entry
          },
          retriesOf(op),
        )
      case "sleep":
        await step.sleep(name, op.ms)
        return null
      case "wait":
        return await step.waitFor<string>(signal<string>(name), op.timeoutMs === null ? {} : { timeout: op.timeoutMs })
      case "call": {
        const input: ChildInput = { parent: this.#attempt.runId, step: key, fails: op.fails }
        return (await step.call(this.#child, input as never, { name })) as Json
      }
      case "child": {
        const definition = workflow(CHILD_FUNCTION, {}, () => null) as unknown as AnyWorkflow
        return (await step.call(definition, {} as never, { name })) as Json
      }
      case "now":
        return step.now().getTime()
      default:
        return op satisfies never
    }
  }

  async #try(op: Tries, key: string, context: StepContext, isLarge: boolean): Promise<Json> {
    const token = this.#begin(key, context)
    await this.#pass(op.workMs)
    if (context.attempt <= op.failures) return this.#fail(key)
    return isLarge ? { token, large: LARGE } : token
  }

  #begin(key: string, { attempt }: StepContext): string {
    const isCancelled = this.#step.signal.reason === "cancel" && !key.startsWith(CLEAN_UP_KEY)
    let token = ""
    this.#simulation.check(() => {
      token = this.#simulation.functions.beginTry(this.#attempt, key, { number: attempt, isCancelled })
    })
    return token
  }

  #fail(key: string): never {
    this.#simulation.functions.failTry(this.#attempt, key)
    throw new PlannedFailure(`a try of ${key} fails`)
  }

  /** Runs as a step after a cancel, which does not wait for anything. */
  async #cleanUp({ id }: Op): Promise<void> {
    const name = `clean up ${id}`
    const key = `${CLEAN_UP_KEY} ${id}`
    this.#simulation.functions.begin(this.#attempt, key)
    const value = await this.#step.run<Json>(name, (context) => this.#try(CLEAN_UP, key, context, false))
    if (!this.#process.alive) return await FOREVER
    this.#simulation.check(() => this.#simulation.functions.see(this.#attempt, CLEAN_UP, key, { value }))
  }

  #pass(ms: number): Promise<void> {
    return new Promise((resolve) => this.#process.clock.after(ms, resolve))
  }
}

const CLEAN_UP_KEY = "0/clean up"
const CLEAN_UP: StepOp & Tries = { kind: "run", isLarge: false, workMs: 100, failures: 0, attempts: 3, delayMs: 0 }

const retriesOf = ({ attempts, delayMs }: Tries) => ({ retry: { attempts, delay: delayMs, backoff: "fixed" } }) as const
