// A world for one seed: engines on one database under a virtual clock, users, faults, and the books that are kept of it.
// Between two events all real work (microtasks, the database) is let finish, so that nothing depends on the machine's own time.

import { setImmediate as immediate } from "node:timers/promises"
import type { AttemptResult } from "../../src/core/model/change.ts"
import type { Json } from "../../src/core/model/json.ts"
import type { RetryRequest } from "../../src/core/rules/retry-plan.ts"
import type { Assignment, StopReason } from "../../src/executors/executor.ts"
import type { LeaseHolderRow } from "../../src/store/contract/store.ts"
import type { SimDatabase } from "./database/database.ts"
import type { RunRecord, TableReader } from "./database/table-reader.ts"
import { VirtualClock } from "./clock.ts"
import { Commits } from "./checks/commits.ts"
import { describeResult } from "./engine/fake-executor.ts"
import { checkLaunch } from "./checks/launches.ts"
import { beginLife, type Life } from "./engine/engine-process.ts"
import { lastIndex, Model } from "./checks/model.ts"
import { MemoryObjects } from "./engine/memory-objects.ts"
import { hash } from "./rng.ts"
import type { Scenario } from "./scenario/scenario.ts"
import { checkStop } from "./checks/stops.ts"
import { type Trace, Violation } from "./trace.ts"
import { type Incarnation, placeText, Witness, type Witnessed } from "./checks/attempt-log.ts"
import { type Answer, isDeferred } from "./scenario/waiting-tasks.ts"
import type { SimNode, SimWorkflow, View } from "./scenario/workflows.ts"

/** More events than this at one instant: the engine is turning in a circle. */
const SPIN = 20_000

export class World {
  readonly scenario: Scenario
  readonly database: SimDatabase
  readonly trace: Trace
  readonly clock = new VirtualClock()
  readonly objects = new MemoryObjects()
  readonly witness = new Witness()
  readonly tables: TableReader
  readonly model: Model
  readonly commits: Commits
  readonly lives: Life[] = []
  /** Holders that the judge called dead, whether they were or only slow. */
  readonly deadHolders = new Set<string>()
  /** All runs are over and the engines are asked to stop. */
  ending = false
  /** Since when a ready row was seen to wait although there is room, by row and attempt. */
  readonly waiting = new Map<string, number>()
  /** Tokens that attempts were given, and what was said to those that waited, by attempt. */
  readonly tokens = new Map<string, string>()
  readonly answers = new Map<string, Answer[]>()
  /** Somebody must answer. */
  asks: (row: number, attemptId: string, kind: "approval" | "callback") => void = () => undefined
  /** Engines that are about to be woken. */
  wakes = 0
  readonly #labels = new Map<string, string>()
  readonly #requests = new Map<string, RetryRequest[]>()
  readonly #kept = new Map<string, Set<number>>()
  readonly #retries = new Map<string, number>()
  readonly #callsOf: number[]
  #outstanding = 0
  #drained: () => void = () => undefined
  #violation: Error | null = null

  constructor(scenario: Scenario, database: SimDatabase, trace: Trace) {
    this.scenario = scenario
    this.database = database
    this.trace = trace
    this.tables = database.tables
    this.model = new Model(this.tables, this.objects, (name) => this.workflowOf(name))
    this.commits = new Commits(this)
    this.#callsOf = scenario.engines.map(() => 0)
  }

  tell(life: Incarnation | null, text: string): void {
    this.trace.add(this.clock.elapsed, life === null ? text : `${life.name} ${text}`)
  }

  fail(error: Error): void {
    this.#violation ??= error
  }

  /** The time of faults is over. */
  get calm(): boolean {
    return this.ending || this.clock.elapsed > this.scenario.faults.until
  }

  // -- the run of events -----------------------------------------------------------------------------------------------------------

  /** Work in real time; the next event waits for it. */
  real(work: () => Promise<void>): void {
    this.#outstanding += 1
    work()
      .catch((error: Error) => this.fail(error))
      .finally(() => {
        this.#outstanding -= 1
        if (this.#outstanding === 0) this.#drained()
      })
  }

  /** As `real`, for a caller that waits for the result. */
  during<T>(work: () => Promise<T>): Promise<T> {
    const result = work()
    this.real(() => result.then(() => undefined))
    return result
  }

  async settle(): Promise<void> {
    await immediate()
    while (this.#outstanding > 0) {
      await new Promise<void>((resolve) => (this.#drained = resolve))
      await immediate()
    }
    if (this.#violation !== null) throw this.#violation
  }

  /** Runs events until `done` says so. `quiet` is called whenever time is about to move on. */
  async play(done: () => boolean, quiet: () => void, until: number): Promise<void> {
    await this.settle()
    let atOnce = 0
    for (;;) {
      const next = this.clock.peek()
      const now = this.clock.now()
      if (next === null || next > now) {
        quiet()
        if (done()) return
        atOnce = 0
      }
      if (next === null) throw new Violation("every run ends", "nothing is planned any more")
      if (this.clock.elapsed > until) throw new Violation("every run ends", `not within ${until / 1000} s`)
      if (++atOnce > SPIN) throw new Violation("the engine comes to rest", `${SPIN} events at one instant`)
      this.clock.step()
      await this.settle()
    }
  }

  // -- engines ---------------------------------------------------------------------------------------------------------------------

  begin(engine: number): void {
    const number = this.lives.filter((life) => life.engine === engine).length + 1
    this.real(async () => {
      const life = await beginLife(this, engine, number)
      this.lives.push(life)
      this.tell(life, "starts")
      life.subject.start().then(
        () => {
          life.started = true
          this.tell(life, "is there")
        },
        (error: Error) => this.crash(life, `at its start: ${error.message}`),
      )
    })
  }

  /** Which calls an engine makes last, over all of its lives. */
  crashAt(life: Life): "before" | "after" | null {
    const call = (this.#callsOf[life.engine]! += 1)
    const crash = this.scenario.faults.crashes.find((one) => one.engine === life.engine && one.call === call)
    return crash === undefined || this.calm ? null : crash.when
  }

  /** Gone in the middle, with all that it runs. It comes back after a while. */
  crash(life: Life, why: string): void {
    if (!life.alive) return
    this.tell(life, `crashes ${why}`)
    this.end(life)
    const downMs = this.scenario.faults.crashes.find((one) => one.engine === life.engine)?.downMs ?? 1000
    this.clock.after(downMs, () => this.begin(life.engine))
  }

  /** Whatever it had planned or was asked for never happens. */
  end(life: Life): void {
    life.alive = false
    this.witness.crashed(life)
    for (const abandoned of life.requests) abandoned()
    this.real(() => life.store.close())
  }

  /** The judge of holders, asked by the store when it looks for the dead. */
  isDead(holder: LeaseHolderRow): boolean {
    const dead = this.scenario.leases
      ? Date.parse(holder.leaseUntil) < this.clock.now()
      : !this.lives.some((life) => life.name === holder.process && life.alive)
    if (dead) this.deadHolders.add(holder.id)
    return dead
  }

  /** The store is about to give up on the holders whose leases are over. */
  giveUpExpired(): void {
    if (!this.scenario.leases) return
    for (const { id, lease_until } of this.tables.holders()) {
      if (Date.parse(lease_until) < this.clock.now()) this.deadHolders.add(id)
    }
  }

  /** Somebody else may run it again. */
  givenUp(attempt: Witnessed): boolean {
    return attempt.holder !== null && this.deadHolders.has(attempt.holder)
  }

  /** After each commit: the other processes are woken, if it sent a wake-up. */
  committed(life: Life, method: string, answer: unknown, wakeUp: string | null): void {
    this.tell(life, `${method} ${summary(answer)}`)
    if (wakeUp === null) return
    for (const other of this.lives) {
      if (other === life || !other.alive) continue
      this.wakes += 1
      this.clock.after(hash(wakeUp) % 5, () => {
        this.wakes -= 1
        if (other.alive) other.wake()
      })
    }
  }

  // -- what executors tell ---------------------------------------------------------------------------------------------------------

  launch(incarnation: Incarnation, assignment: Assignment): Witnessed {
    const workflow = this.workflowOf(assignment.workflow)
    const sim = workflow.nodes.find(({ node }) => node.name === assignment.task)!
    const { runId, path, attemptId: id, attempt: number } = assignment
    const run = this.labelOf(runId)
    const view = { params: this.paramsOf(runId), index: path === "" ? null : lastIndex(path) } as View
    const place = { runId, run, workflow, sim, path }
    const attempt: Witnessed = {
      ...place,
      id,
      number,
      incarnation,
      launchedAt: this.clock.now(),
      holder: this.commits.holders.get(id) ?? null,
      key: sim.key === null ? null : sim.key(view),
      live: true,
      stopped: false,
      startedAt: null,
      result: null,
    }
    this.tell(incarnation, `launches ${placeText(attempt)} #${number}`)
    try {
      checkLaunch(this, attempt, assignment)
    } catch (error) {
      this.fail(error as Error)
    }
    this.witness.launched(attempt)
    return attempt
  }

  stopping(attempt: Witnessed, reason: StopReason): void {
    attempt.stopped = true
    this.tell(attempt.incarnation, `stops ${placeText(attempt)} #${attempt.number}: ${reason}`)
    try {
      checkStop(this, attempt, reason)
    } catch (error) {
      this.fail(error as Error)
    }
  }

  finish(attempt: Witnessed, result: AttemptResult): void {
    this.tell(attempt.incarnation, describeResult(attempt, result))
    this.witness.ended(attempt, result)
  }

  // -- who is who ------------------------------------------------------------------------------------------------------------------

  name(runId: string, label: string): void {
    this.#labels.set(runId, label)
  }

  labelOf(runId: string): string {
    return this.#labels.get(runId) ?? runId
  }

  runIdOf(run: number): string {
    const { label } = this.scenario.runs[run]!
    for (const [id, known] of this.#labels) if (known === label) return id
    throw new Error(`run ${label} has no id yet`)
  }

  paramsOf(runId: string): View["params"] {
    const spec = this.scenario.runs.find(({ label }) => label === this.labelOf(runId))
    return spec?.params ?? (JSON.parse(this.tables.run(runId)!.params) as View["params"])
  }

  workflowOf(name: string): SimWorkflow {
    return this.scenario.workflows.find(({ compiled }) => compiled.name === name)!
  }

  simOf(workflow: string, node: number): SimNode {
    return this.workflowOf(workflow).nodes[node]!
  }

  /** What a task said its output was. */
  said(attemptId: string): Json {
    const output = this.witness.attempts.get(attemptId)?.result?.output ?? null
    if (output === null) return null
    return "inline" in output ? output.inline : (JSON.parse(this.objects.text(output.key)) as Json)
  }

  /** Everything that this task ever gave, as the database writes it. */
  cachedOutputs(workflow: SimWorkflow, sim: SimNode): Set<string> {
    const outputs = new Set<string>()
    for (const attempt of this.witness.attempts.values()) {
      if (attempt.workflow !== workflow || attempt.sim !== sim || attempt.result?.state !== "success") continue
      if (isDeferred(attempt)) {
        for (const { output } of this.answers.get(attempt.id) ?? []) outputs.add(JSON.stringify(output))
        continue
      }
      const output = attempt.result.output ?? { inline: null }
      outputs.add("inline" in output ? JSON.stringify(output.inline) : output.key)
    }
    return outputs
  }

  // -- what users asked for --------------------------------------------------------------------------------------------------------

  /** A user stopped the run, or its time was over. */
  mayStop(run: RunRecord): boolean {
    const { timeoutMs } = this.workflowOf(run.workflow).compiled
    const since = run.started_at === null ? Number.POSITIVE_INFINITY : Date.parse(run.started_at)
    const over = timeoutMs !== undefined && this.clock.now() >= since + timeoutMs
    return this.commits.cancelled.has(run.id) || over
  }

  asked(runId: string, request: RetryRequest): void {
    this.#requests.set(runId, [...this.requestsOf(runId), request])
  }

  /** Every retry that somebody asked for. */
  requestsOf(runId: string): RetryRequest[] {
    return this.#requests.get(runId) ?? []
  }

  /** A retry took effect: all but these rows began anew, and so will the hooks. */
  reset(runId: string, kept: Set<number>): void {
    this.#kept.set(runId, kept)
    this.#retries.set(runId, this.retries(runId) + 1)
    const run = this.tables.run(runId)!
    for (const { index, node } of this.workflowOf(run.workflow).nodes) {
      if (node.hook !== null) this.witness.forget(runId, index, null)
    }
  }

  /** Whether the last retry left this row as it was. */
  isKept(runId: string, row: number): boolean {
    return this.#kept.get(runId)?.has(row) ?? false
  }

  /** How often the run was retried. */
  retries(runId: string): number {
    return this.#retries.get(runId) ?? 0
  }
}

const summary = (answer: unknown): string => {
  if (answer === undefined || answer === null || typeof answer !== "object") return String(answer)
  if (Array.isArray(answer)) return `gives ${answer.length}`
  const parts: string[] = []
  for (const name of ["rejected", "claims", "gates", "closed", "cancelling"] as const) {
    const list = (answer as Record<string, unknown>)[name]
    if (Array.isArray(list) && list.length > 0) parts.push(`${name} ${list.length}`)
  }
  const { more, nextDueMs } = answer as { more?: boolean; nextDueMs?: number | null }
  if (more === true) parts.push("more")
  if (typeof nextDueMs === "number") parts.push(`due ${nextDueMs}`)
  return parts.join(", ")
}
