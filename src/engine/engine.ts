// The engine: runs workflows and jobs from a store. This file is its public API; loop/ commits changes and claims work, dispatcher.ts
// hands claims to attempts/, gate/ and waiting/.

import { AssignmentBuilder } from "./attempts/assignment-builder.ts"
import { Sweeper } from "./attempts/sweeper.ts"
import { Attempts } from "./attempts/attempts.ts"
import { ChangeBuilder } from "./attempts/change-builder.ts"
import { LocalFolders } from "./attempts/folders.ts"
import { OutputReader } from "./attempts/outputs.ts"
import { UpstreamFiles } from "./attempts/upstream-files.ts"
import { Dispatcher } from "./dispatcher.ts"
import { finishesWithin } from "./finishes-within.ts"
import { Gate } from "./gate/gate.ts"
import { Events, type EndResult, type Listener } from "./loop/events.ts"
import { LeaseHolder } from "./loop/lease-holder.ts"
import { CLAIM_NOTHING, Loop } from "./loop/loop.ts"
import { type EngineOptions, privateRunOf } from "./ports.ts"
import { Callbacks } from "./attempts/callbacks.ts"
import { cancelRun } from "./waiting/cancel-run.ts"
import { ExternalSignals } from "./waiting/external-signals.ts"
import { WaitingTasks } from "./waiting/waiting-tasks.ts"
import type { Change, Fence } from "../core/model/change.ts"
import { type HolderId, newRunId, type RunId } from "../core/model/ids.ts"
import { isRunClosed } from "../core/model/status.ts"
import { isGroup } from "../core/model/task-path.ts"
import type { CompiledWorkflow } from "../core/model/workflow.ts"
import { type RowState, planRetry, type RetryPlan, type RetryRequest } from "../core/rules/runs/retry-plan.ts"
import { Conflict, NotFound } from "../store/contract/errors.ts"
import type { AdvanceResult, Batch, CreatedWork, NewRun, RunRow } from "../store/contract/store.ts"
import { rowPages } from "../store/contract/row-pages.ts"

/** Time for the last commits at shutdown, beyond what attempts get to stop. */
const DRAIN_TIMEOUT_MS = 10_000
const STATES_PAGE = 1000

export type TriggerRequest = Omit<NewRun, "id" | "private"> & { id?: RunId }

export class Engine {
  readonly #options: EngineOptions
  readonly #events: Events
  readonly #upstreamFiles: UpstreamFiles
  readonly #callbacks: Callbacks
  readonly #waiting: WaitingTasks
  readonly #dispatcher: Dispatcher
  readonly #loop: Loop
  readonly #holder: LeaseHolder
  readonly #sweeper: Sweeper
  readonly externalSignals: ExternalSignals

  constructor(options: EngineOptions) {
    this.#options = options
    const submit = (change: Change): void => this.#loop.add(change)
    const commit = async (change: Change): Promise<boolean> => (await this.#loop.commit([change])).length === 0
    const outputs = new OutputReader(options.objects)
    const changes = new ChangeBuilder(options, outputs)
    this.#events = new Events(options.store)
    this.#upstreamFiles = new UpstreamFiles(options)
    this.#callbacks = new Callbacks(options)
    const folders = options.folders ?? new LocalFolders(options, this.#upstreamFiles)
    this.#waiting = new WaitingTasks(options, { outputs, changes, folders, submit, holderId: () => this.#holder.id })
    const assignments = new AssignmentBuilder(options, outputs, this.#callbacks)
    this.#dispatcher = new Dispatcher(options, {
      attempts: new Attempts(options, { assignments, folders, outputs, changes, submit, commit }),
      gate: new Gate(options, outputs, this.#waiting),
      waiting: this.#waiting,
      submit,
      attemptEnded: () => this.#loop.attemptEnded(),
      resumed: () => this.#loop.wake(),
      capacityGrown: () => this.#loop.wake(),
    })
    this.#holder = new LeaseHolder(options, {
      submit,
      evicted: () => this.#dispatcher.stopAttempts("lost"),
      wake: () => this.wake(),
      adopted: (claim, startedAt) => void this.#dispatcher.launch(claim, { startedAt }),
      abandoned: (runs) => {
        if (this.#dispatcher.claimAbandoned(runs)) this.wake()
      },
    })
    this.#sweeper = new Sweeper(options)
    this.#loop = new Loop(options, {
      dispatcher: this.#dispatcher,
      holderId: () => this.#holder.id,
      publish: (changes, advanced) => {
        if (advanced.claims.length > 0) this.#holder.guard()
        this.#publish(changes, advanced)
      },
      recovered: () => this.#events.recovered(),
    })
    this.externalSignals = new ExternalSignals({
      store: options.store,
      clock: options.clock,
      secret: options.secret,
      log: options.log,
      waiting: this.#waiting,
      callbacks: this.#callbacks,
      report: (reported) => this.report(reported),
      wake: () => this.#loop.wake(),
    })
  }

  async start(): Promise<void> {
    try {
      for (const executor of this.#options.executors.values()) await executor.start?.()
      await this.#callbacks.load()
      await this.#holder.start()
    } catch (error) {
      await this.#stopParts()
      throw error
    }
    this.#options.store.onWake(() => this.wake())
    this.#loop.start()
    if (this.#options.holder.kind === "server") this.#sweeper.start()
  }

  /**
   * Stops claiming, stops attempts that still run after `drainMs` (they are retried elsewhere), commits what is left and
   * deregisters. Gives up after a timeout when the store accepts nothing, or when an attempt does not stop.
   */
  async stop({ drainMs = 0 }: { drainMs?: number } = {}): Promise<void> {
    if (!this.#loop.running) return
    const { clock, graceMs, log } = this.#options
    const drained = this.#loop.drain()
    this.#waiting.stop()
    this.#sweeper.stop()
    const stopAttempts = (): void => this.#dispatcher.stopAttempts("shutdown")
    const cancelDrainTimer = drainMs > 0 ? clock.after(drainMs, stopAttempts) : stopAttempts()
    if (!(await finishesWithin(clock, drainMs + graceMs + DRAIN_TIMEOUT_MS, drained))) {
      const left = { attempts: this.#dispatcher.attemptCount, changes: this.#loop.pendingChanges }
      log.error(
        left,
        "shutting down with uncommitted work, because the store or a task does not respond; unfinished attempts count as lost and are retried",
      )
    }
    cancelDrainTimer?.()
    this.#loop.stop()
    await this.#holder.stop()
    await this.#stopParts()
  }

  /** Stops what would keep the process alive. */
  async #stopParts(): Promise<void> {
    const { executors, evaluator, conditions } = this.#options
    for (const executor of executors.values()) await executor.stop?.()
    await conditions?.stop()
    await evaluator.stop()
  }

  // -- runs ------------------------------------------------------------------------------------------------------------------------

  /** Creates a run. `created` is false when the idempotency key was used before: `run` is then the run that it created first. */
  async trigger(request: TriggerRequest): Promise<{ run: RunRow; created: boolean }> {
    const { store, clock, random } = this.#options
    const isPrivate = privateRunOf(this.#options) !== null
    const id = request.id ?? newRunId(clock.now(), random.hex128())
    const [result] = await this.createWithTurn("runs", () => store.createRuns([{ ...request, id, private: isPrivate }]))
    const { run, created } = result!
    if (created) this.#events.emit([{ type: "run", runId: run.id, status: run.status, at: run.createdAt }])
    return { run, created }
  }

  async cancel(runId: RunId): Promise<void> {
    const run = await this.#getRun(runId)
    if (!(await this.#thenWake(cancelRun(this.#options.store, runId)))) throw alreadyEnded(run)
    this.#options.observer?.cancelled?.()
    if (run.private && this.#options.holder.kind === "server") void this.reap()
  }

  async setPaused(runId: RunId, paused: boolean): Promise<void> {
    const run = await this.#getRun(runId)
    if (!(await this.#thenWake(this.#options.store.setPaused(runId, paused)))) throw alreadyEnded(run)
  }

  /** Returns what a retry would run again and what it would keep. Changes nothing. */
  async planRetry(runId: RunId, request: RetryRequest): Promise<Exclude<RetryPlan, { problem: string }>> {
    const { store } = this.#options
    const run = await this.#getRun(runId)
    if (!isRunClosed(run.status)) throw new Conflict(`run ${runId} is ${run.status}; cancel it or wait for its end`)
    const workflow = await store.getVersion(run.versionId)
    const plan = planRetry(workflow, run, await this.#rowStates(runId, workflow), request)
    if ("problem" in plan) throw new Conflict(plan.problem)
    return plan
  }

  /** Reads the states of all rows except instances of plain fan-outs. */
  async #rowStates(runId: RunId, workflow: CompiledWorkflow): Promise<RowState[]> {
    const { store } = this.#options
    const states = await store.listRowStates(runId)
    if (!workflow.nodes.some(isGroup)) return states
    for await (const page of rowPages(STATES_PAGE, (each) => store.listInnerRowStates({ runId, ...each }))) states.push(...page)
    return states
  }

  async retry(runId: RunId, request: RetryRequest): Promise<void> {
    const plan = await this.planRetry(runId, request)
    if (!(await this.#thenWake(this.#options.store.retryRun(runId, plan.reset)))) {
      throw new Conflict(`run ${runId} has not ended: its hooks are still running, or it was just retried or removed`)
    }
  }

  /** Resolves when the run and its hooks have ended. */
  waitForRun(runId: RunId): Promise<RunRow> {
    return this.#events.waitForRun(runId)
  }

  onEvent(listener: Listener): () => void {
    return this.#events.on(listener)
  }

  /** Calls the listener when the store is available again: work may have become due without an event. */
  onRecovered(listener: () => void): void {
    this.#events.onRecovered(listener)
  }

  /**
   * Runs a call that creates work, and starts a turn that claims the work. A store that commits both together (`commitsTogether`) keeps the
   * new rows until the end of the tick, and an `advance` that is called before takes them along. So the loop is woken before such a call:
   * the immediate of its turn (`clock.after(0)`) then fires before the one by which the store commits the rows separately.
   */
  createWithTurn<T>(work: CreatedWork, call: () => Promise<T>): Promise<T> {
    if (this.#options.store.commitsTogether.includes(work)) this.#loop.wake()
    return this.#thenWake(call())
  }

  /** Wakes the loop even on error: the commit may have succeeded. */
  #thenWake<T>(call: Promise<T>): Promise<T> {
    return call.finally(() => this.#loop.wake())
  }

  async #getRun(runId: RunId): Promise<RunRow> {
    const run = await this.#options.store.getRun(runId)
    if (run === null) throw new NotFound(`there is no run ${runId}`)
    return run
  }

  // -- other processes ---------------------------------------------------------------------------------------------------------------

  /** Starts a turn, and checks the awaited runs: another process may have created work for this engine, or closed a run. */
  wake(): void {
    this.#events.recheck()
    this.#loop.wake()
  }

  /** Milliseconds for which this engine has been unable to commit; a commit in flight counts from its begin. */
  get stalledMs(): number {
    return this.#loop.stalledMs
  }

  /** Why the store did not commit the last batch; null while it commits. */
  get problem(): string | null {
    return this.#loop.problem
  }

  /** Commits changes that a worker or an external signal reports. Returns the fences that no longer held. */
  report(changes: readonly Change[]): Promise<Fence[]> {
    return this.#loop.commit(changes)
  }

  /** Claims work for a worker that is served by this process. */
  async claimFor(holder: HolderId, claim: Batch["work"]): Promise<AdvanceResult> {
    const advanced = await this.#options.store.advance({ holder, changes: [], work: claim, gate: CLAIM_NOTHING })
    this.#publish([], advanced)
    return advanced
  }

  /** Ends or adopts the attempts of dead holders. */
  reap(): Promise<void> {
    return this.#holder.reap()
  }

  #publish(changes: readonly Change[], { events, closed, rejected }: AdvanceResult): void {
    this.#events.emit(events, resultsIn(changes, rejected))
    for (const { runId } of closed) void this.#upstreamFiles.remove(runId)
    this.#events.committed(closed, events)
  }
}

/** Returns the outputs of the last tasks of jobs and runs that succeeded with these changes, by the id of the job or run. */
const resultsIn = (changes: readonly Change[], rejected: readonly Fence[]): Map<string, EndResult> => {
  const results = new Map<string, EndResult>()
  for (const change of changes) {
    if (change.kind !== "finish" || change.status !== "success" || change.ends === undefined) continue
    if (rejected.some(({ attemptId }) => attemptId === change.attemptId)) continue
    const { id, task } = change.ends
    results.set(id, { task, output: change.result.output ?? { inline: null } })
  }
  return results
}

const alreadyEnded = ({ id, status }: RunRow): Conflict => new Conflict(`run ${id} has already ended as ${status}`)
