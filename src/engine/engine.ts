// The engine: one loop around `store.advance`. What ends goes into the inbox; a turn commits a batch of it and takes what may
// run next; what was taken is launched or judged. A result, a new run, a due timer or a notification wakes it; nothing else.

import { ExternalSignals } from "./waiting/external-signals.ts"
import { Attempts } from "./attempts/attempts.ts"
import { logFieldsOf } from "./attempts/claims.ts"
import { ChangeBuilder } from "./attempts/change-builder.ts"
import { Events, type Listener } from "./loop/events.ts"
import { drain, stopParts, type Left } from "./loop/drain.ts"
import { Gate } from "./gate/gate.ts"
import { LeaseHolder } from "./loop/lease-holder.ts"
import { ShardedInbox } from "./loop/sharded-inbox.ts"
import { AssignmentBuilder } from "./attempts/assignment-builder.ts"
import { type Lanes, lanesOf } from "./loop/lanes.ts"
import type { EngineOptions } from "./ports.ts"
import { CommitAcks } from "./loop/commit-acks.ts"
import { rowStates } from "./services/row-states.ts"
import { WaitingTasks } from "./waiting/waiting-tasks.ts"
import { type Change, type Fence, fenceOf } from "../core/model/change.ts"
import { type HolderId, newRunId, type RunId } from "../core/model/ids.ts"
import { planRetry, type RetryPlan, type RetryRequest } from "../core/rules/retry-plan.ts"
import { clampChange } from "../core/rules/clamp-change.ts"
import { runEnded } from "../core/model/status.ts"
import { Conflict, NotFound } from "../store/contract/errors.ts"
import type { Advanced, Batch, Claim, NewRun, RunRow, TaskClaim } from "../store/contract/store.ts"

/** A start may wait this long to be committed together with its end. */
const START_DELAY_MS = 25
const GATE_LIMIT = 256
const RETRY_MIN_MS = 50
const RETRY_MAX_MS = 5000
const REMOTE_CONCURRENCY = 1000

const NOTHING_WANTED: Batch["claim"] = { lanes: [], limit: 0 }

export type TriggerRequest = Omit<NewRun, "id" | "private"> & { id?: RunId }

export class Engine {
  readonly #options: EngineOptions
  readonly #receipts = new CommitAcks()
  readonly #inbox: ShardedInbox
  readonly #events: Events
  readonly #inputs: AssignmentBuilder
  readonly #attempts: Attempts
  readonly #gate: Gate
  readonly #waiting: WaitingTasks
  readonly externalSignals: ExternalSignals
  readonly #holder: LeaseHolder
  readonly #lanes: Lanes
  readonly #judging = new Set<string>()

  #state: "new" | "running" | "draining" | "stopped" = "new"
  /** What the turns that the store has not answered yet may still claim. */
  #claiming = 0
  #wanted = false
  #soon = false
  #cancelSoon: (() => void) | null = null
  #cancelDue: (() => void) | null = null
  #dueAt = Number.POSITIVE_INFINITY
  #failures = 0
  /** The store did not answer: no turn until `#recover` has been through. */
  #blocked = false
  #idle: (() => void)[] = []

  constructor(options: EngineOptions) {
    this.#options = options
    this.#inbox = new ShardedInbox(options.store.advanceConcurrency, (change, into) => this.#receipts.coalesced(change, into))
    const emit = (change: Change): void => this.#receive(change)
    this.#events = new Events(options.store)
    this.#inputs = new AssignmentBuilder(options)
    this.#attempts = new Attempts(options, this.#inputs, emit)
    this.#waiting = new WaitingTasks(options, this.#inputs, new ChangeBuilder(options, this.#inputs))
    this.externalSignals = new ExternalSignals(options, this.#waiting, this.#inputs.callbacks, (changes) =>
      this.report(changes),
    )
    this.#gate = new Gate(options, this.#inputs, this.#waiting)
    this.#holder = new LeaseHolder(options, {
      emit,
      deposed: () => this.#attempts.stopAll("lost"),
      wake: () => this.look(),
      adopted: (claim) => void this.#launch(claim),
    })
    this.#lanes = lanesOf(options)
  }

  async start(): Promise<void> {
    try {
      for (const executor of this.#options.executors.values()) await executor.start?.()
      await this.#inputs.callbacks.ready()
      await this.#holder.start()
    } catch (error) {
      await stopParts(this.#options)
      throw error
    }
    this.#options.store.onWake(() => this.look())
    this.#state = "running"
    this.#wake()
  }

  /**
   * Takes nothing more, stops what still runs after `patienceMs` (it is tried again elsewhere), commits what is left and gives up
   * its place. A store that takes nothing any more is not waited for.
   */
  async stop({ patienceMs = 0 }: { patienceMs?: number } = {}): Promise<void> {
    if (this.#state !== "running") return
    this.#state = "draining"
    this.#waiting.stop()
    const stopAll = (): void => this.#attempts.stopAll("shutdown")
    const cancelPatience = patienceMs > 0 ? this.#options.clock.after(patienceMs, stopAll) : stopAll()
    const idle = new Promise<void>((resolve) => {
      this.#idle.push(resolve)
      this.#wake()
    })
    const left = (): Left => ({ attempts: this.#attempts.size, changes: this.#inbox.size })
    await drain(this.#options, { patienceMs, idle, left })
    cancelPatience?.()
    this.#state = "stopped"
    this.#receipts.close()
    this.#cancelSoon?.()
    this.#cancelDue?.()
    await this.#holder.stop()
    await stopParts(this.#options)
  }

  // -- what people ask for -------------------------------------------------------------------------------------------------------

  async trigger(request: TriggerRequest): Promise<RunRow> {
    const { store, clock, random, privateRun } = this.#options
    const id = request.id ?? newRunId(clock.now(), random.hex128())
    const [created] = await this.#ask(store.createRuns([{ ...request, id, private: privateRun !== null }]))
    if (created!.created) this.#events.created(created!.run)
    return created!.run
  }

  async cancel(runId: RunId): Promise<void> {
    const run = await this.#find(runId)
    if (!(await this.#ask(this.#options.store.requestCancel(runId, "cancel")))) {
      throw new Conflict(`run ${runId} has already ended as ${run.status}`)
    }
    this.#options.observer?.cancelled?.()
  }

  async pause(runId: RunId, paused: boolean): Promise<void> {
    const run = await this.#find(runId)
    if (!(await this.#ask(this.#options.store.setPaused(runId, paused)))) {
      throw new Conflict(`run ${runId} has already ended as ${run.status}`)
    }
  }

  /** Whatever the answer: it may have been lost after the commit, and then there is work that nobody else tells of. */
  #ask<T>(request: Promise<T>): Promise<T> {
    return request.finally(() => this.#wake())
  }

  /** What a retry would run again and what it would keep; changes nothing. */
  async planRetry(runId: RunId, request: RetryRequest): Promise<Exclude<RetryPlan, { problem: string }>> {
    const { store } = this.#options
    const run = await this.#find(runId)
    if (!runEnded(run.status)) throw new Conflict(`run ${runId} is ${run.status}; cancel it or wait for its end`)
    const workflow = await store.compiled(run.versionId)
    const plan = planRetry(workflow, run, await rowStates(store, runId, workflow), request)
    if ("problem" in plan) throw new Conflict(plan.problem)
    return plan
  }

  async retry(runId: RunId, request: RetryRequest): Promise<void> {
    const plan = await this.planRetry(runId, request)
    if (!(await this.#ask(this.#options.store.retryRun(runId, plan.reset)))) {
      throw new Conflict(`run ${runId} is not over yet: its hooks are still running, or somebody else retried it just now`)
    }
  }

  /** Changes that somebody else made: resolves after their commit, with the fences that no longer held. */
  report(changes: readonly Change[]): Promise<Fence[]> {
    const sound = changes.map(clampChange)
    const receipt = this.#receipts.track(sound)
    for (const change of this.#state === "stopped" ? [] : sound) this.#receive(change)
    return receipt
  }

  /** Takes work for a holder elsewhere, which asked this server. */
  async claimFor(holder: HolderId, claim: Batch["claim"]): Promise<Advanced> {
    const advanced = await this.#options.store.advance({ holder, changes: [], claim, gate: NOTHING_WANTED })
    this.#tell(advanced)
    return advanced
  }

  /** Finishes or adopts the attempts of dead holders. */
  readonly reap = (): Promise<void> => this.#holder.reapSafely()

  /** Resolves when the run and its hooks have ended. */
  waitForRun(runId: RunId): Promise<RunRow> {
    return this.#events.waitForRun(runId)
  }

  onEvent(listener: Listener): () => void {
    return this.#events.on(listener)
  }

  async #find(runId: RunId): Promise<RunRow> {
    const run = await this.#options.store.getRun(runId)
    if (run !== null) return run
    throw new NotFound(`there is no run ${runId}`)
  }

  // -- the loop ------------------------------------------------------------------------------------------------------------------

  #receive(change: Change): void {
    this.#inbox.add(clampChange(change))
    if (this.#inbox.urgent) this.#wake()
    else this.#cancelSoon ??= this.#options.clock.after(START_DELAY_MS, () => this.#wake())
  }

  #wake(): void {
    if (this.#state === "new" || this.#state === "stopped") return
    this.#wanted = true
    this.#turnSoon()
  }

  #turnSoon(): void {
    if (this.#soon || !this.#mayTurn()) return
    this.#soon = true
    this.#options.clock.after(0, () => {
      this.#soon = false
      void this.#turn()
    })
  }

  #mayTurn(): boolean {
    return !this.#blocked && this.#state !== "stopped" && this.#inbox.canAdvance
  }

  /** Others may have made work for us, or ended runs that somebody awaits here. */
  look(): void {
    this.#events.recheck()
    this.#wake()
  }

  async #turn(): Promise<void> {
    if (!this.#mayTurn()) return
    this.#wanted = false
    this.#cancelSoon?.()
    this.#cancelSoon = null
    const load = this.#inbox.nextBatch()
    const { changes, remaining } = load
    const draining = this.#state === "draining"
    const heldBack = remaining > 0 || this.#claiming > 0
    const { lanes, limit } = draining ? NOTHING_WANTED : this.#wish(remaining)
    this.#claiming += limit
    const { clock, observer } = this.#options
    const begun = clock.now()
    try {
      const answer = this.#options.store.advance({
        holder: this.#holder.id,
        changes,
        claim: { lanes, limit },
        gate: {
          lanes: this.#lanes.gate,
          limit: draining ? 0 : Math.max(0, GATE_LIMIT - this.#judging.size - this.#inbox.chunks),
        },
      })
      if (remaining > 0) void this.#turn()
      const advanced = await answer
      this.#failures = 0
      this.#claiming -= limit
      observer?.turn?.({ changes: changes.length, claims: advanced.claims.length, ms: clock.now() - begun })
      this.#receipts.committed(changes, advanced.rejected)
      this.#apply(advanced)
      this.#wakeIn(advanced.nextDueMs, load.exclusive)
      if (limit > 0 && advanced.claims.length === limit && this.#wish(0).limit > 0) {
        // What it made ready may use what the other turn did not take; or there is more of the other kind of work.
        if (heldBack) this.#wanted = true
        else this.#cancelSoon ??= clock.after(START_DELAY_MS, () => this.#wake())
      }
      if (advanced.more || this.#inbox.urgent) this.#wanted = true
      this.#inbox.complete(load, { back: false })
    } catch (error) {
      this.#claiming -= limit
      this.#inbox.complete(load, { back: true })
      this.#fail(error)
    }
    if (this.#blocked) return
    if (this.#wanted) this.#turnSoon()
    else this.#settleIdle()
  }

  /** What to claim beside `others` that are on their way: both kinds of work by the smaller number, or one alone. */
  #wish(others: number): Batch["claim"] {
    const { concurrency, remoteConcurrency = REMOTE_CONCURRENCY } = this.#options
    const { work, remote } = this.#lanes
    const taken = this.#claiming + others
    const here = concurrency - (this.#attempts.size - this.#attempts.remote) - taken
    const elsewhere = remote.length === 0 ? 0 : remoteConcurrency - this.#attempts.remote - taken
    if (elsewhere <= 0) return { lanes: work, limit: Math.max(0, here) }
    if (here <= 0 || work.length === 0) return { lanes: remote, limit: elsewhere }
    return { lanes: [...work, ...remote], limit: Math.min(here, elsewhere) }
  }

  #apply(advanced: Advanced): void {
    for (const { attemptId } of advanced.rejected) this.#attempts.lose(attemptId)
    this.#tell(advanced)
    for (const claim of advanced.claims) {
      // Taken in the very moment that the engine was told to stop.
      if (this.#state === "draining") this.#receive({ ...fenceOf(claim), kind: "release" })
      else void this.#launch(claim)
    }
    for (const claim of advanced.gates) void this.#judge(claim)
    for (const { runSeq, reason } of advanced.cancelling) this.#attempts.cancelRun(runSeq, reason)
    for (const attemptId of advanced.cancelRequested) this.#attempts.cancel(attemptId)
  }

  /** A turn beside another may not know of what that one has put off: then what was planned stays planned. */
  #wakeIn(ms: number | null, knows: boolean): void {
    const due = ms === null ? Number.POSITIVE_INFINITY : this.#options.clock.now() + ms
    if (!knows && this.#dueAt <= due) return
    this.#cancelDue?.()
    this.#dueAt = due
    this.#cancelDue = ms === null ? null : this.#options.clock.after(ms, () => this.#wakeDue())
  }

  #wakeDue(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#wake()
  }

  #tell({ events, closed }: Pick<Advanced, "events" | "closed">): void {
    this.#events.emit(events)
    for (const { runId } of closed) this.#inputs.forget(runId)
    this.#events.committed(closed, events)
  }

  async #launch(claim: Claim): Promise<void> {
    try {
      await this.#attempts.launch(claim)
    } catch (error) {
      this.#options.log.error(
        { ...logFieldsOf(claim), error: String(error) },
        "an attempt could not be launched; giving it back",
      )
      this.#receive({ ...fenceOf(claim), kind: "release" })
    }
    // One that is left to the next server ends without a change.
    if (this.#state === "draining") this.#wake()
  }

  async #judge(claim: TaskClaim): Promise<void> {
    this.#judging.add(claim.attemptId)
    try {
      const emit = (change: Change): void => this.#receive(change)
      await (claim.waitingOn === null ? this.#gate.evaluate(claim, emit) : this.#waiting.resume(claim, emit))
    } catch (error) {
      this.#options.log.warn({ run: claim.runId, error: String(error) }, "could not judge a task; giving it back")
      this.#options.clock.after(RETRY_MIN_MS, () => this.#receive({ ...fenceOf(claim), kind: "release" }))
    } finally {
      this.#judging.delete(claim.attemptId)
      // It may have made a run, whatever became of the answer.
      if (claim.waitingOn !== null) this.#wake()
    }
  }

  /** The store is away, or its answer was lost: try again with back-off, and give back what was taken but never got here. */
  #fail(error: unknown): void {
    const { clock, log, random } = this.#options
    if (this.#state === "stopped") return
    this.#failures += 1
    const delay = Math.min(RETRY_MIN_MS * 2 ** (this.#failures - 1), RETRY_MAX_MS) * (0.5 + random.next() / 2)
    log.warn({ error: String(error), failures: this.#failures }, "the store did not take a batch; trying again")
    if (this.#blocked) return
    this.#blocked = true
    clock.after(delay, () => void this.#recover())
  }

  async #recover(): Promise<void> {
    if (this.#state === "stopped") return
    // What a turn that is still out there claims is not known yet.
    if (!this.#inbox.idle) {
      this.#options.clock.after(RETRY_MIN_MS, () => void this.#recover())
      return
    }
    try {
      for (const { row, attemptId } of await this.#options.store.listInFlight(this.#holder.id)) {
        const known = this.#attempts.has(attemptId) || this.#judging.has(attemptId) || this.#inbox.has(attemptId)
        if (!known) this.#receive({ row, attemptId, kind: "release" })
      }
      this.#events.recheck()
      this.#blocked = false
      this.#wanted = false
      this.#wake()
    } catch (error) {
      this.#blocked = false
      this.#fail(error)
    }
  }

  #settleIdle(): void {
    const busy = !this.#inbox.idle || this.#attempts.size > 0 || this.#judging.size > 0 || this.#inbox.size > 0
    if (busy || this.#state !== "draining") return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}
