// What was committed, in order, as seen at the store's door: who claimed what, which results were applied, which requests of
// users took effect. Each commit is checked against the database and the witness.

import { isDeepStrictEqual } from "node:util"
import type { Change } from "../../../src/core/model/change.ts"
import type { RetryReset } from "../../../src/core/rules/retry-plan.ts"
import type { Advanced, Batch, Claim, LiveAttempt } from "../../../src/store/contract/store.ts"
import type { TaskRecord } from "../database/table-reader.ts"
import { checkDecision } from "./retry-budget.ts"
import type { Life } from "../engine/engine-process.ts"
import { isLive } from "./model.ts"
import { checkRetryPlan, checkRetried, type RetrySnapshot } from "./user-retries.ts"
import { isOverdue } from "./group-timeouts.ts"
import { Violation } from "../trace.ts"
import { isDeferred } from "../scenario/waiting-tasks.ts"
import type { World } from "../simulation.ts"

type Settling = Extract<Change, { kind: "finish" | "retry" }>

const isSettling = (change: Change): change is Settling => change.kind === "finish" || change.kind === "retry"

interface PerformedCall {
  method: string
  args: unknown[]
  answer: unknown
  /** See `SimDatabase.refresh`. */
  wakeUp: string | null
}

export class Commits {
  readonly #world: World
  /** Under which holder each attempt was claimed. */
  readonly holders = new Map<string, string>()
  /** Runs that a user cancelled (and when) or paused, as committed. */
  readonly cancelled = new Map<string, number>()
  readonly paused = new Set<string>()
  /** Every run that was created. */
  readonly created = new Set<string>()
  readonly #applied = new Set<string>()
  readonly #sent = new WeakSet<readonly Change[]>()
  #retrying: RetrySnapshot | null = null
  count = 0

  constructor(world: World) {
    this.#world = world
  }

  before(_life: Life, method: string, args: unknown[]): void {
    if (method === "reapHolders") this.#world.giveUpExpired()
    if (method !== "retryRun") return
    const [runId, plan] = args as [string, RetryReset]
    this.#retrying = checkRetryPlan(this.#world, runId, plan)
  }

  failed(life: Life, method: string, error: Error): void {
    this.#world.fail(new Violation("the store takes every call", `${method} of ${life.name}: ${error.stack ?? error.message}`))
  }

  after(life: Life, { method, args, answer, wakeUp }: PerformedCall): void {
    this.count += 1
    switch (method) {
      case "advance":
        this.#advanced(life, args[0] as Batch, answer as Advanced)
        break
      case "createRuns":
        for (const { run } of answer as { run: { id: string } }[]) this.created.add(run.id)
        break
      case "requestCancel":
        if (answer === true && !this.cancelled.has(args[0] as string))
          this.cancelled.set(args[0] as string, this.#world.clock.now())
        break
      case "setPaused":
        if (answer === true && args[1] === true) this.paused.add(args[0] as string)
        else this.paused.delete(args[0] as string)
        break
      case "retryRun":
        if (answer === true) this.#retried(args[0] as string)
        break
      case "deregisterHolder":
        // What it leaves behind counts as lost.
        this.#world.deadHolders.add(args[0] as string)
        break
      case "reapHolders":
        this.#reaped(answer as LiveAttempt[])
        break
      default:
        break
    }
    this.#world.committed(life, method, answer, wakeUp)
  }

  // -- advance -------------------------------------------------------------------------------------------------------------------

  #advanced(life: Life, batch: Batch, advanced: Advanced): void {
    const refused = new Set<string>(advanced.rejected.map((fence) => fence.attemptId))
    if (this.#sent.has(batch.changes)) this.#checkAgain(batch, refused)
    this.#sent.add(batch.changes)
    for (const change of batch.changes) {
      if (!isSettling(change)) continue
      if (!refused.has(change.attemptId) || this.#isNew(change)) this.#apply(change)
      else this.#checkRefused(change)
    }
    for (const change of batch.changes) {
      if (change.kind !== "wait" || refused.has(change.attemptId)) continue
      const { kind } = change.waitingOn
      if (kind === "approval" || kind === "callback") this.#world.asks(change.row, change.attemptId, kind)
    }
    for (const { runId } of advanced.closed) this.paused.delete(runId)
    if (batch.claim.limit > 0) life.holder = batch.holder
    for (const claim of [...advanced.claims, ...advanced.gates]) this.holders.set(claim.attemptId, batch.holder)
    for (const claim of advanced.claims) this.#checkClaim(claim)
    this.#checkPriority(batch, advanced)
  }

  /** A batch that arrives for the second time, and was carried out the first time, changes nothing. */
  #checkAgain(batch: Batch, refused: Set<string>): void {
    const taken = batch.changes.find((change) => isSettling(change) && !refused.has(change.attemptId))
    if (taken === undefined) return
    throw new Violation("a result is applied once", `${taken.kind} of ${taken.attemptId} was taken for the second time`)
  }

  /** Its fence is named as refused for a start that came after it; the result itself was taken just now. */
  #isNew({ attemptId, row: id, ...change }: Settling): boolean {
    if (this.#applied.has(attemptId)) return false
    const row = this.#world.tables.taskByRow(id)
    if (change.kind === "retry" && !this.#isEnded(row, attemptId))
      return this.#world.tables.attempts(id).some((past) => past.attempt_id === attemptId)
    const status = change.kind === "retry" ? "cancelled" : change.status
    return row !== undefined && row.attempt_id === attemptId && row.status === status
  }

  #checkRefused(change: Settling): void {
    const row = this.#world.tables.taskByRow(change.row)
    if (row === undefined || row.attempt_id !== change.attemptId || !isLive(row)) return
    throw new Violation("no good report is refused", `${change.kind} of row ${change.row}, which still has ${change.attemptId}`)
  }

  /** It would be tried again, but for a group around it whose time is over. */
  #isEnded(row: TaskRecord | undefined, attemptId: string): boolean {
    return row?.status === "cancelled" && row.attempt_id === attemptId && isOverdue(this.#world, row)
  }

  #apply(given: Settling): void {
    const { tables, witness, clock } = this.#world
    const { attemptId, result } = given
    const isEnded = given.kind === "retry" && this.#isEnded(tables.taskByRow(given.row), attemptId)
    const change: Settling = isEnded ? { ...given, kind: "finish", status: "cancelled" } : given
    const told = `${change.kind} of row ${change.row} ${attemptId}`
    if (this.#applied.has(attemptId)) throw new Violation("a result is applied once", told)
    this.#applied.add(attemptId)
    const row = tables.taskByRow(change.row)
    if (row === undefined) throw new Violation("no good report is refused", `${told}: there is no such row`)
    const attempt = witness.attempts.get(attemptId)
    if (attempt !== undefined && result.state !== "lost" && !isDeferred(attempt)) {
      if (attempt.result?.state !== result.state || !isDeepStrictEqual(attempt.result?.output, result.output)) {
        const said = `committed ${result.state}, but the task said ${attempt.result?.state ?? "nothing yet"}`
        throw new Violation("results are what the tasks said", `${told}: ${said}`)
      }
    }
    if (attempt !== undefined && result.state === "lost" && attempt.result?.state !== "lost" && !this.#world.givenUp(attempt)) {
      throw new Violation("only the dead are given up on", `${told}, which ${attempt.incarnation.name} still has`)
    }
    if (change.kind === "finish" && (row.status !== change.status || row.attempt_id !== attemptId)) {
      throw new Violation("what is acknowledged is stored", `${told}: the row is ${row.status} with ${row.attempt_id}`)
    }
    if (change.kind === "retry" && row.attempt_id === attemptId) {
      throw new Violation("what is acknowledged is stored", `${told}: the row still has it`)
    }
    const run = tables.runBySeq(row.run_seq)
    const history = witness.history(run.id, row.node, row.path)
    checkDecision(this.#world, run, row, history, change)
    const retryAfterMs = result.retryAfterMs ?? null
    history.applied.push({ id: attemptId, kind: change.kind, state: result.state, at: clock.now(), retryAfterMs })
    if (change.kind === "finish") history.succeeded = change.status === "success"
  }

  #checkClaim(claim: Claim): void {
    if (claim.kind === "job") return
    const { runId } = claim
    const isHook = this.#world.simOf(claim.run.workflow, claim.node).node.hook !== null
    if (this.paused.has(runId)) throw new Violation("a paused run takes no slot", `row ${claim.row} of ${runId}`)
    if (!isHook && this.cancelled.has(runId))
      throw new Violation("a cancelled run starts nothing", `row ${claim.row} of ${runId}`)
  }

  /** Nothing of a higher priority that is under no limit stays behind. */
  #checkPriority(batch: Batch, advanced: Advanced): void {
    if (advanced.claims.length < batch.claim.limit || advanced.more) return
    const least = Math.min(...advanced.claims.map((claim) => claim.priority))
    const behind = batch.claim.lanes.map((lane) => this.#world.tables.firstAbove(least, lane)).find((row) => row !== undefined)
    if (behind === undefined) return
    throw new Violation("the highest priority goes first", `row ${behind.id} of ${behind.priority} waits behind ${least}`)
  }

  // -- the rest ------------------------------------------------------------------------------------------------------------------

  #retried(runId: string): void {
    this.cancelled.delete(runId)
    this.paused.delete(runId)
    if (this.#retrying === null) throw new Violation("a retry runs the right tasks", `${runId} had not ended, or ended again`)
    checkRetried(this.#world, this.#retrying)
  }

  #reaped(left: LiveAttempt[]): void {
    for (const { attemptId } of left) {
      const holder = this.holders.get(attemptId)
      if (holder === undefined || this.#world.deadHolders.has(holder)) continue
      throw new Violation("only the dead are given up on", `${attemptId} of ${holder}`)
    }
  }
}
