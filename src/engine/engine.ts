// The engine: one loop around `store.advance`. What ends goes into the inbox; a turn commits a batch of it and takes what may
// run next; what was taken is launched or judged. A result, a new run, a due timer or a notification wakes it; nothing else.

import { rm } from "node:fs/promises"
import { Attempts } from "./attempts.ts"
import { Events, type Listener } from "./events.ts"
import { Gate } from "./gate.ts"
import { Holder } from "./holder.ts"
import { Inbox, MAX_BATCH } from "./inbox.ts"
import { Inputs, runFolder, upstreamFolder } from "./inputs.ts"
import type { EngineOptions } from "./ports.ts"
import { Receipts } from "./receipts.ts"
import type { Change, Fence } from "../core/change.ts"
import { newRunId, type RunId } from "../core/ids.ts"
import { gateLane, workLane } from "../core/lanes.ts"
import { planRetry, type RetryPlan, type RetryRequest } from "../core/retry-plan.ts"
import { runEnded } from "../core/status.ts"
import { Conflict, NotFound } from "../store/errors.ts"
import type { Advanced, Claim, NewRun, RunRow, StoreEvent } from "../store/store.ts"

/** A start may wait this long to be committed together with its end. */
const START_DELAY_MS = 25
const GATE_LIMIT = 256
const RETRY_MIN_MS = 50
const RETRY_MAX_MS = 5000
/** Fewer changes than this wait for the turn that is under way, so that commits stay few. */
const SECOND_TURN_MIN = 64

export type TriggerRequest = Omit<NewRun, "id" | "private"> & { id?: RunId }

export class Engine {
  readonly #options: EngineOptions
  readonly #receipts = new Receipts()
  readonly #inbox = new Inbox((change, into) => this.#receipts.folded(change, into))
  readonly #events: Events
  readonly #inputs: Inputs
  readonly #attempts: Attempts
  readonly #gate: Gate
  readonly #holder: Holder
  readonly #lanes: { work: string[]; gate: string[] }
  readonly #judging = new Set<string>()

  #state: "new" | "running" | "draining" | "stopped" = "new"
  /** Turns that the store has not answered yet, and what they may still claim. */
  #turns = 0
  #claiming = 0
  #wanted = false
  #cancelSoon: (() => void) | null = null
  #cancelDue: (() => void) | null = null
  #failures = 0
  /** The store did not answer: no turn until `#recover` has been through. */
  #blocked = false
  #idle: (() => void)[] = []

  constructor(options: EngineOptions) {
    this.#options = options
    const emit = (change: Change): void => this.#receive(change)
    this.#events = new Events(options.store)
    this.#inputs = new Inputs(options)
    this.#attempts = new Attempts(options, this.#inputs, emit)
    this.#gate = new Gate(options, this.#inputs)
    this.#holder = new Holder(
      options,
      emit,
      () => this.#attempts.stopAll("lost"),
      () => this.look(),
    )
    const own = options.privateRun === null ? null : { id: options.privateRun, private: true }
    this.#lanes =
      own === null
        ? { work: options.lanes, gate: [gateLane({ id: "", private: false })] }
        : { work: [workLane(own, { queue: "", labels: [] })], gate: [gateLane(own)] }
  }

  async start(): Promise<void> {
    for (const executor of this.#options.executors.values()) await executor.start?.()
    await this.#holder.start()
    this.#options.store.onWake(() => this.look())
    this.#state = "running"
    this.#wake()
  }

  /**
   * Takes nothing more, stops what still runs after `patienceMs` (it is tried again elsewhere), commits what is left and gives up
   * its place.
   */
  async stop({ patienceMs = 0 }: { patienceMs?: number } = {}): Promise<void> {
    if (this.#state !== "running") return
    this.#state = "draining"
    const stopAll = (): void => this.#attempts.stopAll("shutdown")
    const cancelPatience = patienceMs > 0 ? this.#options.clock.after(patienceMs, stopAll) : stopAll()
    await new Promise<void>((resolve) => {
      this.#idle.push(resolve)
      this.#wake()
    })
    cancelPatience?.()
    this.#state = "stopped"
    this.#receipts.close()
    this.#cancelSoon?.()
    this.#cancelDue?.()
    await this.#holder.stop()
    for (const executor of this.#options.executors.values()) await executor.stop?.()
    await this.#options.evaluator.stop()
  }

  // -- what people ask for -------------------------------------------------------------------------------------------------------

  async trigger(request: TriggerRequest): Promise<RunRow> {
    const { store, clock, random, privateRun } = this.#options
    const id = request.id ?? newRunId(clock.now(), random.hex128())
    const [created] = await this.#ask(store.createRuns([{ ...request, id, private: privateRun !== null }]))
    if (created!.created) this.#events.emit([runEvent(created!.run)])
    return created!.run
  }

  async cancel(runId: RunId): Promise<void> {
    const run = await this.#find(runId)
    if (!(await this.#ask(this.#options.store.requestCancel(runId, "cancel")))) {
      throw new Conflict(`run ${runId} has already ended as ${run.status}`)
    }
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
    const plan = planRetry(await store.compiled(run.versionId), run, await store.listNodes(runId), request)
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
    const receipt = this.#receipts.wait(changes)
    if (this.#state !== "stopped") for (const change of changes) this.#receive(change)
    return receipt
  }

  /** Resolves when the run and its hooks have ended. */
  ended(runId: RunId): Promise<RunRow> {
    return this.#events.ended(runId)
  }

  onEvent(listener: Listener): () => void {
    return this.#events.on(listener)
  }

  async #find(runId: RunId): Promise<RunRow> {
    const run = await this.#options.store.getRun(runId)
    if (run === null) throw new NotFound(`there is no run ${runId}`)
    return run
  }

  // -- the loop ------------------------------------------------------------------------------------------------------------------

  #receive(change: Change): void {
    this.#inbox.add(change)
    if (this.#inbox.urgent) this.#wake()
    else this.#cancelSoon ??= this.#options.clock.after(START_DELAY_MS, () => this.#wake())
  }

  #wake(): void {
    if (this.#wanted || this.#state === "new" || this.#state === "stopped") return
    this.#wanted = true
    this.#turnSoon()
  }

  #turnSoon(): void {
    if (this.#mayTurn()) this.#options.clock.after(0, () => void this.#turn())
  }

  /** A second turn is sent after the first where the store can work on it meanwhile, once there is enough for it. */
  #mayTurn(): boolean {
    if (this.#blocked || this.#state === "stopped") return false
    if (this.#turns === 0) return true
    return this.#turns < this.#options.store.turnsAtOnce && this.#inbox.size >= SECOND_TURN_MIN
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
    const split = this.#turns + 1 < this.#options.store.turnsAtOnce && this.#inbox.size >= 2 * SECOND_TURN_MIN
    const changes = this.#inbox.take({ most: split ? this.#inbox.size >> 1 : MAX_BATCH, expansions: this.#turns === 0 })
    const draining = this.#state === "draining"
    const free = this.#options.concurrency - this.#attempts.size - this.#claiming - (split ? this.#inbox.size : 0)
    const limit = draining ? 0 : Math.max(0, free)
    this.#turns += 1
    this.#claiming += limit
    if (split) void this.#turn()
    const { clock, observer } = this.#options
    const begun = clock.now()
    try {
      const advanced = await this.#options.store.advance({
        holder: this.#holder.id,
        changes,
        claim: { lanes: this.#lanes.work, limit },
        gate: { lanes: this.#lanes.gate, limit: draining ? 0 : GATE_LIMIT - this.#judging.size },
      })
      this.#failures = 0
      this.#claiming -= limit
      observer?.turn?.({ changes: changes.length, claims: advanced.claims.length, ms: clock.now() - begun })
      this.#receipts.committed(changes, advanced.refused)
      this.#apply(advanced)
      if (advanced.more || this.#inbox.urgent) this.#wanted = true
    } catch (error) {
      this.#claiming -= limit
      this.#inbox.putBack(changes)
      this.#fail(error)
    }
    this.#turns -= 1
    if (this.#blocked) return
    if (this.#wanted) this.#turnSoon()
    else this.#settleIdle()
  }

  #apply(advanced: Advanced): void {
    for (const { attemptId } of advanced.refused) this.#attempts.lose(attemptId)
    this.#events.emit(advanced.events)
    for (const claim of advanced.claims) {
      // Taken in the very moment that the engine was told to stop.
      if (this.#state === "draining") this.#receive({ row: claim.row, attemptId: claim.attemptId, kind: "release" })
      else void this.#launch(claim)
    }
    for (const claim of advanced.gates) void this.#judge(claim)
    for (const { runSeq, reason } of advanced.cancelling) this.#attempts.cancelRun(runSeq, reason)
    for (const { runId } of advanced.closed) this.#inputs.forget(runId)
    for (const attemptId of advanced.stopped) this.#attempts.cancel(attemptId)
    this.#events.settled(advanced.closed, advanced.events)
    this.#cancelDue?.()
    this.#cancelDue = advanced.nextDueMs === null ? null : this.#options.clock.after(advanced.nextDueMs, () => this.#wake())
  }

  async #launch(claim: Claim): Promise<void> {
    try {
      await this.#attempts.launch(claim)
    } catch (error) {
      this.#options.log.error({ run: claim.runId, error: String(error) }, "an attempt could not be launched; giving it back")
      this.#receive({ row: claim.row, attemptId: claim.attemptId, kind: "release" })
    }
  }

  async #judge(claim: Claim): Promise<void> {
    this.#judging.add(claim.attemptId)
    try {
      await this.#gate.judge(claim, (change) => this.#receive(change))
    } catch (error) {
      this.#options.log.warn({ run: claim.runId, error: String(error) }, "could not judge a task; giving it back")
      this.#options.clock.after(RETRY_MIN_MS, () =>
        this.#receive({ row: claim.row, attemptId: claim.attemptId, kind: "release" }),
      )
    } finally {
      this.#judging.delete(claim.attemptId)
    }
  }

  /** The store is away, or its answer was lost: try again with back-off, and give back what was taken but never got here. */
  #fail(error: unknown): void {
    const { clock, log, random } = this.#options
    this.#failures += 1
    const delay = Math.min(RETRY_MIN_MS * 2 ** (this.#failures - 1), RETRY_MAX_MS) * (0.5 + random.next() / 2)
    log.warn({ error: String(error), failures: this.#failures }, "the store did not take a batch; trying again")
    if (this.#blocked) return
    this.#blocked = true
    clock.after(delay, () => void this.#recover())
  }

  async #recover(): Promise<void> {
    // What a turn that is still out there claims is not known yet.
    if (this.#turns > 0) {
      this.#options.clock.after(RETRY_MIN_MS, () => void this.#recover())
      return
    }
    try {
      const held = await this.#options.store.heldBy(this.#holder.id)
      for (const fence of held) {
        const known =
          this.#attempts.has(fence.attemptId) || this.#judging.has(fence.attemptId) || this.#inbox.has(fence.attemptId)
        if (!known) this.#receive({ row: fence.row, attemptId: fence.attemptId, kind: "release" })
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
    const busy = this.#turns > 0 || this.#attempts.size > 0 || this.#judging.size > 0 || this.#inbox.size > 0
    if (busy || this.#state !== "draining") return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

/** Removes everything that a run left on this machine outside of the stores. */
export const removeRunFiles = async (dataDir: string, runId: string): Promise<void> => {
  for (const folder of [runFolder(dataDir, runId), upstreamFolder(dataDir, runId)]) {
    await rm(folder, { recursive: true, force: true })
  }
}

const runEvent = (run: RunRow): StoreEvent => ({ type: "run", runId: run.id, status: run.status, at: run.createdAt })
