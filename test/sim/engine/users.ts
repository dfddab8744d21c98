// The users of the engines: they start runs, cancel, pause, resume and retry them, approve tasks and send callbacks, repeat a request that
// got no reply, and await the end of runs. An operator restarts engines.

import { newRunId, type RunId } from "../../../src/core/model/ids.ts"
import type { TriggerRequest } from "../../../src/engine/engine.ts"
import { planStepRetry } from "../../../src/engine/services/step-retry.ts"
import type { StepKey } from "../../../src/core/rules/runs/retry-plan.ts"
import { Conflict, NotFound } from "../../../src/store/contract/errors.ts"
import type { StoredVersion } from "../../../src/store/contract/store.ts"
import { Rng } from "../rng.ts"
import type { SignalSpec } from "../scenario/functions.ts"
import { retryRequest, type RunSpec, type UserAction } from "../scenario/scenario.ts"
import type { SentSignal, Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import type { EngineProcess } from "./engine-process.ts"

const REPEAT_MS = 500
const REPEAT_RETRY_MS = 5000
const MAX_TRIES = 4
/** No run is retried after this time. */
const LAST_SIGNAL_MS = 300_000
const MAX_SIGNAL_DELAY_MS = 8000

export interface UserRequest<T> {
  /** The only engine that accepts the request; null: any shared engine. */
  engine: number | null
  send: (process: EngineProcess) => Promise<T>
  succeeded: (value: T, process: EngineProcess) => void
  /** The error is null when the process crashed before it replied. */
  failed: (error: Error | null) => void
}

export class Users {
  readonly #simulation: Simulation
  readonly #versions: StoredVersion[]
  readonly #rng: Rng
  /** Runs whose start an engine acknowledged. */
  readonly acknowledged = new Map<string, RunSpec>()
  /** Requests that are planned or have no reply yet. */
  #openRequests = 0

  constructor(simulation: Simulation, versions: StoredVersion[]) {
    this.#simulation = simulation
    this.#versions = versions
    this.#rng = new Rng("users", simulation.scenario.seed)
    const { runs, actions, engines } = simulation.scenario
    runs.forEach((spec) => this.after(spec.at, () => this.#trigger(spec)))
    actions.forEach((action) => this.after(action.at, () => this.#act(action, 1)))
    engines.forEach((engine, i) => engine.restarts.forEach((at) => this.after(at, () => this.#restart(i))))
    simulation.onExternalWait = (row, attemptId, kind) =>
      this.after(this.#rng.int(0, MAX_SIGNAL_DELAY_MS), () => this.#sendSignal(row, attemptId, kind))
    for (const { private: engine, label } of runs) if (engine !== null) simulation.setLabel(this.#newId(), label)
  }

  get idle(): boolean {
    return this.#openRequests === 0
  }

  #newId(): RunId {
    return newRunId(this.#simulation.clock.now(), this.#rng.hex128())
  }

  after(ms: number, act: () => void): void {
    this.#openRequests += 1
    this.#simulation.clock.after(ms, () => {
      this.#openRequests -= 1
      act()
    })
  }

  /** A process of this engine; null: none is up. */
  #pickProcess(engine: number | null): EngineProcess | null {
    const { processes, scenario } = this.#simulation
    const open = processes.filter(({ alive, started, draining, engineIndex }) => {
      const accepts = engine === null ? scenario.engines[engineIndex]!.privateRun === null : engineIndex === engine
      return alive && started && !draining && accepts
    })
    return open.length === 0 ? null : this.#rng.pick(open)
  }

  request<T>(request: UserRequest<T>): void {
    const process = this.#pickProcess(request.engine)
    if (process === null) return this.after(REPEAT_MS, () => this.request(request))
    this.#openRequests += 1
    const close = (next: () => void): void => {
      if (!process.openRequests.delete(abandon)) return
      this.#openRequests -= 1
      next()
    }
    const abandon = (): void => close(() => request.failed(null))
    process.openRequests.add(abandon)
    request.send(process).then(
      (value) => close(() => request.succeeded(value, process)),
      (error: Error) => close(() => request.failed(error)),
    )
  }

  // -- starting runs ---------------------------------------------------------------------------------------------------------------

  #trigger(spec: RunSpec): void {
    const { workflowId, versionId } = this.#versions[spec.workflow]!
    const id = spec.private === null ? this.#newId() : (this.#idOf(spec) as RunId)
    this.#simulation.setLabel(id, spec.label)
    const { params, priority, key: idempotencyKey } = spec
    const run = { id, workflowId, versionId, params, priority, idempotencyKey }
    const request: TriggerRequest = { ...run, trigger: "manual", logicalDate: null, workingDir: "work" }
    this.request({
      engine: spec.private,
      send: ({ engine }) => engine.trigger(request),
      succeeded: ({ run: created }, process) => {
        this.#simulation.log(process, `acknowledges ${spec.label}`)
        this.#simulation.setLabel(created.id, spec.label)
        const isFirst = !this.acknowledged.has(created.id)
        this.acknowledged.set(created.id, spec)
        this.#awaitEnd(process, created.id)
        if (isFirst) for (const signal of spec.signals ?? []) this.#planSignal(created.id, signal)
      },
      failed: () => {
        if (spec.key !== null) this.after(REPEAT_MS, () => this.#trigger(spec))
      },
    })
  }

  #idOf(spec: RunSpec): string | null {
    for (const [id, known] of this.acknowledged) if (known === spec) return id
    return spec.private === null ? null : this.#simulation.runIdOf(this.#simulation.scenario.runs.indexOf(spec))
  }

  /** Awaits the end of a run as `ork run` does. */
  #awaitEnd(process: EngineProcess, runId: string): void {
    process.awaitedRuns.set(runId, false)
    const retries = this.#simulation.retryCount(runId)
    process.engine.waitForRun(runId as RunId).then(
      () => {
        process.awaitedRuns.set(runId, true)
        const run = this.#simulation.tables.run(runId)
        if (run === undefined) return
        const isOpen = run.finished_at === null || run.hooks_pending > 0
        if (!isOpen || this.#simulation.retryCount(runId) !== retries) return
        const message = `${this.#simulation.labelOf(runId)} is ${run.status}`
        this.#simulation.fail(new Violation("the end of a run is not reported early", message))
      },
      () => {
        // A run that was removed has ended.
        if (this.#simulation.commitLog.removals.has(runId)) process.awaitedRuns.set(runId, true)
        else this.after(REPEAT_MS, () => (process.alive ? this.#awaitEnd(process, runId) : undefined))
      },
    )
  }

  // -- changing runs ---------------------------------------------------------------------------------------------------------------

  #act(action: UserAction, tries: number): void {
    const spec = this.#simulation.scenario.runs[action.run]!
    const runId = this.#idOf(spec) as RunId | null
    const repeat = (ms: number): void => {
      if (tries < MAX_TRIES) this.after(ms, () => this.#act(action, tries + 1))
    }
    if (runId === null || this.#simulation.tables.run(runId) === undefined) return repeat(REPEAT_MS)
    switch (action.kind) {
      case "cancel":
        return this.request({
          engine: spec.private,
          send: ({ engine }) => engine.cancel(runId),
          succeeded: (_, process) => this.#logAction(process, action, spec),
          failed: (error) => (error instanceof Conflict ? undefined : repeat(REPEAT_MS)),
        })
      case "pause": {
        const resume = (): void => this.after(action.forMs, () => this.#resume(spec, runId))
        return this.request({
          engine: spec.private,
          send: ({ engine }) => engine.setPaused(runId, true),
          succeeded: (_, process) => {
            this.#logAction(process, action, spec)
            resume()
          },
          failed: resume,
        })
      }
      case "retry": {
        const workflow = this.#simulation.scenario.workflows[spec.workflow]!
        const step = workflow.program === undefined || action.how === "failed" ? null : this.#pickStep(runId, action.pick)
        const request = retryRequest(action, workflow, (node) => this.#instancePaths(runId, node))
        this.#simulation.addRetryRequest(runId, request)
        return this.request({
          engine: spec.private,
          send: async ({ engine, faultyStore }) => {
            if (step === null) return await engine.retry(runId, request)
            return await engine.retry(runId, (await planStepRetry(faultyStore, runId, step)).request)
          },
          succeeded: (_, process) => {
            this.#logAction(process, action, spec)
            this.#awaitEnd(process, runId)
          },
          failed: () => repeat(REPEAT_RETRY_MS),
        })
      }
      default:
        return action satisfies never
    }
  }

  #logAction(process: EngineProcess, { kind }: UserAction, { label }: RunSpec): void {
    this.#simulation.log(process, `${kind} of ${label} is acknowledged`)
  }

  #instancePaths(runId: RunId, node: number): string[] {
    const { tables } = this.#simulation
    const rows = tables.tasksOf(tables.run(runId)!.seq)
    return rows.filter((row) => row.node === node && row.parent_id !== null).map((row) => row.path)
  }

  /** Returns a recorded step of a function; null: there is none. */
  #pickStep(runId: RunId, pick: number): StepKey | null {
    const { tables } = this.#simulation
    const task = tables.task(tables.run(runId)!.seq, 0, "")
    const steps = task === undefined ? [] : tables.steps(task.id)
    return steps.length === 0 ? null : steps[pick % steps.length]!
  }

  /** Resumes a paused run, and repeats the request until it succeeds. */
  #resume(spec: RunSpec, runId: RunId): void {
    this.request({
      engine: spec.private,
      send: ({ engine }) => engine.setPaused(runId, false),
      succeeded: () => undefined,
      failed: (error) => {
        const hasEnded = error instanceof Conflict || error instanceof NotFound
        if (!hasEnded) this.after(REPEAT_MS, () => this.#resume(spec, runId))
      },
    })
  }

  // -- signals to functions --------------------------------------------------------------------------------------------------------

  #planSignal(runId: string, signal: SignalSpec): void {
    this.after(Math.max(0, signal.at - this.#simulation.clock.elapsed), () => this.#signal(runId, signal))
  }

  #signal(runId: string, signal: SignalSpec): void {
    const { name, key, payload } = signal
    this.request({
      engine: null,
      send: ({ engine, faultyStore }) =>
        faultyStore.sendSignal({ runId: runId as RunId, name, key, payload }).finally(() => engine.wake()),
      succeeded: (outcome, process) => {
        this.#simulation.log(process, `signal ${payload} is ${outcome}`)
        // A user may retry the function.
        const again = outcome === "ended" && this.#simulation.clock.elapsed < LAST_SIGNAL_MS
        if (again) this.after(REPEAT_RETRY_MS, () => this.#signal(runId, signal))
        if (outcome === "unknown")
          this.#simulation.fail(new Violation("no acknowledged run is lost", `${runId} gets no signal`))
      },
      failed: () => this.after(REPEAT_MS, () => this.#signal(runId, signal)),
    })
  }

  // -- signals to waiting tasks ----------------------------------------------------------------------------------------------------

  /** Sends an approval or a callback, again and again until the task no longer waits. */
  #sendSignal(row: number, attemptId: string, kind: "approval" | "callback", repeats = 0): void {
    const { tables, callbackTokens, scenario } = this.#simulation
    const task = tables.taskByRow(row)
    if (task === undefined || task.attempt_id !== attemptId || task.waiting_on === null) return
    const run = tables.runBySeq(task.run_seq)
    const { name } = this.#simulation.simNodeOf(run.workflow, task.node).node
    // What a user decides does not depend on other tasks, so that a smaller world has the same decisions.
    const rng = new Rng("signal", scenario.seed, this.#simulation.labelOf(run.id), name, task.path, task.attempt, repeats)
    const signal: SentSignal = { positive: rng.chance(0.7), output: { said: rng.int(0, 9) } }
    const { positive, output } = signal
    const target = { runId: run.id as RunId, name, path: task.path }
    // An approval names the task, and reaches the attempt that it has by then.
    const record = (): void => {
      const recipient = kind === "callback" ? attemptId : (tables.taskByRow(row)?.attempt_id ?? attemptId)
      this.#simulation.addSignal(recipient, signal)
    }
    this.request({
      engine: this.#engineOf(run.id),
      send: ({ engine: { externalSignals } }) => {
        record()
        return kind === "approval"
          ? externalSignals.approval({ ...target, approved: positive, comment: null, by: "somebody" })
          : externalSignals.callback(callbackTokens.get(attemptId)!, { status: positive ? "success" : "failed", output })
      },
      succeeded: (_, process) => {
        record()
        this.#simulation.log(process, `accepts a ${positive ? "positive" : "negative"} ${kind} for row ${row}`)
      },
      failed: () => this.after(REPEAT_MS, () => this.#sendSignal(row, attemptId, kind, repeats + 1)),
    })
  }

  /** The engine that executes a run alone, or the run that started it; null: any shared engine. */
  #engineOf(runId: string): number | null {
    const { scenario, tables } = this.#simulation
    const spec = scenario.runs.find(({ label }) => label === this.#simulation.labelOf(runId))
    if (spec !== undefined) return spec.private
    const parent = tables.parentRun(runId)
    return parent === null ? null : this.#engineOf(parent)
  }

  // -- restarting engines ----------------------------------------------------------------------------------------------------------

  #restart(engineIndex: number): void {
    const process = this.#simulation.processes.findLast((each) => each.engineIndex === engineIndex)
    if (process === undefined || !process.alive || !process.started || process.draining) return
    process.draining = true
    process.services?.stop()
    this.#simulation.log(process, "is told to stop")
    const restart = (): void => {
      if (!process.alive) return
      this.#simulation.log(process, "has stopped")
      this.#simulation.terminate(process)
      this.#simulation.clock.after(100, () => this.#simulation.startEngine(engineIndex))
    }
    process.engine.stop().then(restart, restart)
  }
}
