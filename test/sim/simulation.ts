// The simulation of one seed: engine processes on one database under a virtual clock, users, faults, and the records that the checks
// compare. Between two events all real work (microtasks, the database) finishes, so nothing depends on the machine's speed.

import { setImmediate as immediate } from "node:timers/promises"
import type { AttemptResult } from "../../src/core/model/change.ts"
import type { Json } from "../../src/core/values/json.ts"
import type { RetryRequest } from "../../src/core/rules/runs/retry-plan.ts"
import type { Assignment, StopReason } from "../../src/executors/executor.ts"
import type { LeaseHolderRow } from "../../src/store/contract/store.ts"
import { AttemptLog, describeTask, isDeferred, type LaunchedAttempt } from "./checks/attempt-log.ts"
import { CommitLog } from "./checks/commits.ts"
import { FunctionLog } from "./checks/functions.ts"
import { type JobAttempt, JobLog } from "./checks/jobs.ts"
import { checkLaunch, isStored } from "./checks/launches.ts"
import { lastIndex, Model } from "./checks/model.ts"
import { QueueLog } from "./checks/queues.ts"
import { checkStop } from "./checks/stops.ts"
import { VirtualClock } from "./clock.ts"
import type { SimDatabase } from "./database/database.ts"
import type { RunRecord, TableReader } from "./database/table-reader.ts"
import { EngineProcess } from "./engine/engine-process.ts"
import { describeResult } from "./engine/fake-executor.ts"
import { MemoryObjects } from "./engine/memory-objects.ts"
import { hash } from "./rng.ts"
import type { Scenario } from "./scenario/scenario.ts"
import type { Outage } from "./scenario/schedules.ts"
import type { ExpressionScope, SimNode, SimWorkflow } from "./scenario/workflows.ts"
import { type Trace, Violation } from "./trace.ts"

/** An engine that causes more events than this at one instant is in an endless loop. */
const MAX_EVENTS_PER_INSTANT = 20_000
/** Turns of the real event loop within which a function reaches its next step, or is suspended. */
const FUNCTION_TURNS = 5

/** An approval or a callback that a user sent to a waiting task. */
export interface SentSignal {
  positive: boolean
  output: Json
}

export interface SimulationOptions {
  scenario: Scenario
  database: SimDatabase
  trace: Trace
  dataDir: string
}

export class Simulation {
  readonly scenario: Scenario
  readonly database: SimDatabase
  readonly trace: Trace
  readonly clock = new VirtualClock()
  readonly objects = new MemoryObjects()
  /** A folder for the files of all engines. */
  readonly dataDir: string
  readonly attemptLog = new AttemptLog()
  readonly tables: TableReader
  readonly model: Model
  readonly commitLog: CommitLog
  readonly jobs: JobLog
  readonly functions: FunctionLog
  readonly queues: QueueLog
  readonly processes: EngineProcess[] = []
  /** Holders that the store may give up, because they crashed or were too slow to renew their leases. */
  readonly deadHolders = new Set<string>()
  /** All runs have closed, and the engines have been asked to stop. */
  shuttingDown = false
  /** The time at which a ready row was first seen beside a free slot, by row and attempt. */
  readonly readySince = new Map<string, number>()
  /** Callback tokens, by attempt. */
  readonly callbackTokens = new Map<string, string>()
  /** Called when a task starts to wait for a user. */
  onExternalWait: (row: number, attemptId: string, kind: "approval" | "callback") => void = () => undefined
  /** Wake-ups that have not reached their process. */
  pendingWakes = 0
  readonly #signals = new Map<string, SentSignal[]>()
  readonly #labels = new Map<string, string>()
  readonly #retryRequests = new Map<string, RetryRequest[]>()
  readonly #keptRows = new Map<string, Set<number>>()
  readonly #retryCounts = new Map<string, number>()
  readonly #callCounts: number[]
  /** No engine starts before this time. */
  #downUntil = 0
  readonly #runsFunctions: boolean
  #realWork = 0
  #realWorkDone: () => void = () => undefined
  #violation: Error | null = null

  constructor({ scenario, database, trace, dataDir }: SimulationOptions) {
    this.scenario = scenario
    this.dataDir = dataDir
    this.database = database
    this.trace = trace
    this.tables = database.tables
    this.model = new Model(this.tables, this.objects, (name) => this.workflowOf(name))
    this.commitLog = new CommitLog(this)
    this.jobs = new JobLog(this)
    this.functions = new FunctionLog(this)
    this.queues = new QueueLog(this)
    this.#callCounts = scenario.engines.map(() => 0)
    this.#runsFunctions = scenario.workflows.some(({ program }) => program !== undefined)
  }

  log(process: EngineProcess | null, text: string): void {
    this.trace.add(this.clock.elapsed, process === null ? text : `${process.name} ${text}`)
  }

  /** Ends the simulation after the current event. The first error is the one that is reported. */
  fail(error: Error): void {
    this.#violation ??= error
  }

  /** Runs a check; ends the simulation if it throws. */
  check(check: () => void): void {
    try {
      check()
    } catch (error) {
      this.fail(error as Error)
    }
  }

  /** No more faults occur, so that all runs can close. */
  get faultsOver(): boolean {
    return this.shuttingDown || this.clock.elapsed > this.scenario.faults.until
  }

  // -- events ----------------------------------------------------------------------------------------------------------------------

  /** Starts work that takes real time; the next event waits for it. */
  track(work: () => Promise<void>): void {
    this.#realWork += 1
    work()
      .catch((error: Error) => this.fail(error))
      .finally(() => {
        this.#realWork -= 1
        if (this.#realWork === 0) this.#realWorkDone()
      })
  }

  /** Does the same as `track`, and returns the result. */
  trackResult<T>(work: () => Promise<T>): Promise<T> {
    const result = work()
    this.track(() => result.then(() => undefined))
    return result
  }

  async #finishRealWork(): Promise<void> {
    for (let turns = this.#runsFunctions ? FUNCTION_TURNS : 1; turns > 0; turns--) await immediate()
    while (this.#realWork > 0) {
      await new Promise<void>((resolve) => (this.#realWorkDone = resolve))
      await immediate()
    }
    if (this.#violation !== null) throw this.#violation
  }

  /** Runs events until `isDone` returns true, at most until `untilMs`. Calls `beforeTimePasses` when no event is left at an instant. */
  async runUntil(isDone: () => boolean, beforeTimePasses: () => void, untilMs: number): Promise<void> {
    await this.#finishRealWork()
    let eventsAtInstant = 0
    for (;;) {
      const next = this.clock.peek()
      if (next === null || next > 0) {
        beforeTimePasses()
        if (isDone()) return
        eventsAtInstant = 0
      }
      if (next === null) throw new Violation("every run closes", "no event is planned")
      if (this.clock.elapsed > untilMs) throw new Violation("every run closes", `not within ${untilMs / 1000} s`)
      if (++eventsAtInstant > MAX_EVENTS_PER_INSTANT) {
        throw new Violation("the engine comes to rest", `${MAX_EVENTS_PER_INSTANT} events at one instant`)
      }
      this.clock.step()
      await this.#finishRealWork()
    }
  }

  // -- engine processes ------------------------------------------------------------------------------------------------------------

  startEngine(engineIndex: number): void {
    const waitMs = this.#downUntil - this.clock.elapsed
    if (waitMs > 0) return void this.clock.after(waitMs, () => this.startEngine(engineIndex))
    const number = this.processes.filter((process) => process.engineIndex === engineIndex).length + 1
    this.track(async () => {
      const process = await EngineProcess.create(this, engineIndex, number)
      this.processes.push(process)
      this.log(process, "starts")
      process.engine.start().then(
        () => {
          process.started = true
          process.services?.start()
          this.log(process, "has started")
        },
        (error: Error) => this.crash(process, `at its start: ${error.message}`),
      )
    })
  }

  /** Counts a store call of an engine, over all of its processes; returns the crash that is planned for it, or null. */
  plannedCrash({ engineIndex }: EngineProcess): "before" | "after" | null {
    const call = (this.#callCounts[engineIndex]! += 1)
    const crash = this.scenario.faults.crashes.find((spec) => spec.engine === engineIndex && spec.call === call)
    return crash === undefined || this.faultsOver ? null : crash.when
  }

  /** Ends a process with all attempts that it runs. A new one starts after a while. */
  crash(process: EngineProcess, when: string): void {
    if (!process.alive) return
    this.log(process, `crashes ${when}`)
    this.terminate(process)
    const downMs = this.scenario.faults.crashes.find((spec) => spec.engine === process.engineIndex)?.downMs ?? 1000
    this.clock.after(downMs, () => this.startEngine(process.engineIndex))
  }

  /** Ends all processes. They start again when the outage is over. */
  crashAll({ forMs }: Outage): void {
    this.#downUntil = this.clock.elapsed + forMs
    for (const process of this.processes) this.crash(process, "with all others")
  }

  /** Drops the planned events and open requests of a process. */
  terminate(process: EngineProcess): void {
    process.alive = false
    this.attemptLog.addCrash(process)
    this.jobs.addCrash(process)
    for (const abandon of process.openRequests) abandon()
    this.track(async () => {
      await process.store.close()
      this.tables.refresh()
    })
  }

  /** Decides whether a holder is dead, for stores without leases of their own. */
  isDead(holder: LeaseHolderRow): boolean {
    const isDead = this.scenario.leases
      ? Date.parse(holder.leaseUntil) < this.clock.now()
      : !this.processes.some((process) => process.name === holder.process && process.alive)
    if (isDead) this.deadHolders.add(holder.id)
    return isDead
  }

  /** Notes the holders whose leases have expired: the store is about to give them up. */
  noteExpiredLeases(): void {
    if (!this.scenario.leases) return
    for (const { id, lease_until } of this.tables.holders()) {
      if (Date.parse(lease_until) < this.clock.now()) this.deadHolders.add(id)
    }
  }

  /** Returns whether another process may run the task again. */
  isAbandoned(attempt: LaunchedAttempt): boolean {
    return attempt.holder !== null && this.deadHolders.has(attempt.holder)
  }

  /** Wakes the other processes a little later. */
  deliverWakeUp(from: EngineProcess, wakeUp: string): void {
    for (const process of this.processes) {
      if (process === from || !process.alive) continue
      this.pendingWakes += 1
      this.clock.after(hash(wakeUp) % 5, () => {
        this.pendingWakes -= 1
        if (process.alive) for (const wake of process.wakes) wake()
      })
    }
  }

  // -- attempts, as the fake executors report them ---------------------------------------------------------------------------------

  launch(process: EngineProcess, assignment: Assignment): LaunchedAttempt {
    const workflow = this.workflowOf(assignment.workflow)
    const simNode = workflow.nodes.find(({ node }) => node.name === assignment.task)!
    const { runId, path, attemptId: id, attempt: number } = assignment
    const scope = { params: this.paramsOf(runId), index: path === "" ? null : lastIndex(path) } as ExpressionScope
    const attempt: LaunchedAttempt = {
      runId,
      run: this.labelOf(runId),
      workflow,
      simNode,
      path,
      id,
      number,
      process,
      launchedAt: this.clock.elapsed,
      holder: this.commitLog.holders.get(id) ?? null,
      key: simNode.key === null ? null : simNode.key(scope),
      live: true,
      stopped: false,
      startedAt: null,
      result: null,
      output: null,
    }
    this.log(process, `launches ${describeTask(attempt)} #${number}`)
    this.check(() => checkLaunch(this, attempt, assignment))
    this.attemptLog.addLaunch(attempt, isStored(this, attempt))
    return attempt
  }

  launchJob(process: EngineProcess, attempt: JobAttempt): void {
    this.log(process, `launches job ${attempt.id.slice(0, 8)} #${attempt.number}`)
    const holder = this.commitLog.holders.get(attempt.attemptId) ?? null
    this.check(() => this.jobs.addLaunch(process, attempt, holder))
  }

  stopJob(process: EngineProcess, attemptId: string, reason: StopReason): void {
    this.log(process, `stops ${attemptId}: ${reason}`)
    this.check(() => this.jobs.checkStop(attemptId, reason))
  }

  stop(attempt: LaunchedAttempt, reason: StopReason): void {
    attempt.stopped = true
    this.log(attempt.process, `stops ${describeTask(attempt)} #${attempt.number}: ${reason}`)
    this.check(() => checkStop(this, attempt, reason))
  }

  finish(attempt: LaunchedAttempt, result: AttemptResult): void {
    this.log(attempt.process, describeResult(attempt, result))
    const { output } = result
    const value =
      output === undefined ? null : "inline" in output ? output.inline : (JSON.parse(this.objects.text(output.key)) as Json)
    this.attemptLog.addResult(attempt, result, value)
  }

  // -- lookups ---------------------------------------------------------------------------------------------------------------------

  setLabel(runId: string, label: string): void {
    this.#labels.set(runId, label)
  }

  /** The scenario's name of a run, which is the same in every replay; the id of a sub-workflow's run. */
  labelOf(runId: string): string {
    return this.#labels.get(runId) ?? runId
  }

  runIdOf(runIndex: number): string {
    const { label } = this.scenario.runs[runIndex]!
    for (const [id, known] of this.#labels) if (known === label) return id
    throw new Error(`run ${label} has no id yet`)
  }

  paramsOf(runId: string): ExpressionScope["params"] {
    const spec = this.scenario.runs.find(({ label }) => label === this.labelOf(runId))
    return spec?.params ?? (JSON.parse(this.tables.run(runId)!.params) as ExpressionScope["params"])
  }

  workflowOf(name: string): SimWorkflow {
    return this.scenario.workflows.find(({ compiled }) => compiled.name === name)!
  }

  simNodeOf(workflow: string, node: number): SimNode {
    return this.workflowOf(workflow).nodes[node]!
  }

  /** The output that the task of an attempt reported; null: none. */
  reportedOutput(attemptId: string): Json {
    return this.attemptLog.attempts.get(attemptId)?.output ?? null
  }

  /** Every output that attempts of a task reported, as JSON. */
  reportedOutputs(workflow: SimWorkflow, simNode: SimNode): Set<string> {
    const outputs = new Set<string>()
    for (const attempt of this.attemptLog.attempts.values()) {
      if (attempt.workflow !== workflow || attempt.simNode !== simNode || attempt.result?.state !== "success") continue
      if (isDeferred(attempt)) {
        for (const { output } of this.signalsTo(attempt.id)) outputs.add(JSON.stringify(output))
        continue
      }
      outputs.add(JSON.stringify(this.reportedOutput(attempt.id)))
    }
    return outputs
  }

  // -- requests of users -----------------------------------------------------------------------------------------------------------

  /** Returns whether a user cancelled the run or its timeout has passed. */
  mayBeStopped(run: RunRecord): boolean {
    const { timeoutMs } = this.workflowOf(run.workflow).compiled
    const startedAt = run.started_at === null ? Number.POSITIVE_INFINITY : Date.parse(run.started_at)
    // A retry starts the timeout again, and the clock may have been set back below the first start since.
    const isRetriedEarlier = this.retryRequests(run.id).length > 0 && this.scenario.clockSteps.some(({ ms }) => ms < 0)
    const hasTimedOut = isRetriedEarlier || this.clock.latest >= startedAt + (timeoutMs ?? 0)
    return this.commitLog.cancelled.has(run.id) || (timeoutMs !== undefined && hasTimedOut)
  }

  addSignal(attemptId: string, signal: SentSignal): void {
    this.#signals.set(attemptId, [...this.signalsTo(attemptId), signal])
  }

  /** The signals that users sent to an attempt. */
  signalsTo(attemptId: string): SentSignal[] {
    return this.#signals.get(attemptId) ?? []
  }

  addRetryRequest(runId: string, request: RetryRequest): void {
    this.#retryRequests.set(runId, [...this.retryRequests(runId), request])
  }

  retryRequests(runId: string): RetryRequest[] {
    return this.#retryRequests.get(runId) ?? []
  }

  /** Notes that a retried run has started again, with all rows reset but `kept`. */
  noteKept(runId: string, kept: Set<number>): void {
    this.#keptRows.set(runId, kept)
  }

  /** Notes a committed retry, which removed the hooks. */
  noteRetry(runId: string): void {
    this.#retryCounts.set(runId, this.retryCount(runId) + 1)
    const run = this.tables.run(runId)!
    for (const { index, node } of this.workflowOf(run.workflow).nodes) {
      if (node.hook !== null) this.attemptLog.forgetTask(runId, index, null)
    }
  }

  /** Returns whether the last retry of the run left this row as it was. */
  isKept(runId: string, row: number): boolean {
    return this.#keptRows.get(runId)?.has(row) ?? false
  }

  /** Committed retries of a run. */
  retryCount(runId: string): number {
    return this.#retryCounts.get(runId) ?? 0
  }
}
