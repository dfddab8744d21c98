// Tasks that wait without a slot: sleeps, approvals, sub-workflows, polls, callbacks and conditions. The gate begins a wait; when a row is
// due it is resumed here, and waits again or finishes. Decisions are the same on every server that resumes a row: two servers may
// resume it in turn. The engine that resumes a row with a condition keeps its claim and checks the condition (watches.ts).

import { ChildRuns } from "./child-runs.ts"
import { ConditionBuilder, NOT_HERE } from "./conditions.ts"
import { DeferredPolls } from "./deferred-polls.ts"
import { Watches, waitTimedOut } from "./watches.ts"
import type { ChangeBuilder } from "../attempts/change-builder.ts"
import { nodeOf } from "../attempts/claims.ts"
import { type OutputReader, outputProblem, writeOutput } from "../attempts/outputs.ts"
import { isTaskFault, TaskFailure } from "../attempts/task-failure.ts"
import type { EngineOptions, Folders } from "../ports.ts"
import { type AttemptResult, type Change, type Fence, fenceOf, type Output } from "../../core/model/change.ts"
import type { ApprovalAnswer } from "../../core/model/function-signals.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"
import { iso } from "../../core/model/ports.ts"
import { DURATION_HINT, formatDuration, parseDuration } from "../../core/values/quantities.ts"
import { untilNextCheck, type WaitingExecutor, type WaitingOn } from "../../core/model/waiting-on.ts"
import type { Node } from "../../core/model/workflow.ts"
import { soonest } from "../../core/time/soonest.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

/** The next step of a resumed row: it waits on, or its attempt has a result. */
export type WaitStep = { waitingOn: WaitingOn; delayMs: number | null } | { result: WaitResult }

/** A result without its times, with an output that is not stored yet, or one that is. */
export type WaitResult = Pick<AttemptResult, "state"> &
  Partial<Pick<AttemptResult, "error" | "retryable">> & { output?: Json; stored?: Output }

interface WaitingParts {
  outputs: OutputReader
  changes: ChangeBuilder
  folders: Folders
  submit(change: Change): void
  holderId(): HolderId
}

/** A resumed row that the engine keeps, and whose condition it checks. */
type Held = { held: true }

/** A resumed row whose command is checked again. */
type Requeue = { requeue: true }

/** Pause after which another engine may resume a row that this one cannot check. */
const ELSEWHERE_MS = 1000

type Wait = Omit<Extract<Change, { kind: "wait" }>, "row" | "attemptId">

export class WaitingTasks {
  readonly #options: EngineOptions
  readonly #outputs: OutputReader
  readonly #changes: ChangeBuilder
  readonly #polls: DeferredPolls
  readonly #childRuns: ChildRuns
  readonly #conditions: ConditionBuilder
  /** Rows whose conditions this engine checks. */
  readonly watches: Watches

  constructor(options: EngineOptions, { outputs, changes, folders, submit, holderId }: WaitingParts) {
    this.#options = options
    this.#outputs = outputs
    this.#changes = changes
    this.#polls = new DeferredPolls(options)
    this.#childRuns = new ChildRuns(options, outputs)
    this.#conditions = new ConditionBuilder(options, outputs, folders)
    this.watches = new Watches(options, {
      submit,
      finish: (fence, result) => this.#finishWatched(fence, result),
      owned: async () => new Set((await options.store.listInFlight(holderId())).map(({ attemptId }) => attemptId)),
    })
  }

  /** Aborts the polls under way and ends the watches; their rows are released. */
  stop(): void {
    this.#polls.stop()
    this.watches.stop()
  }

  /** Returns the wait that a task begins with. Throws a `TaskFailure` for invalid fields. */
  async begin(claim: TaskClaim, node: Node, executor: WaitingExecutor, scope: ExpressionScope): Promise<Wait> {
    const { evaluator } = this.#options
    const field = async (name: string): Promise<Json | undefined> =>
      node.fields[name] === undefined ? undefined : await evaluator.render(node.fields[name], scope)
    switch (executor) {
      case "sleep": {
        const ms = this.#sleepMs(await field("duration"), await field("until"))
        return { kind: "wait", waitingOn: { kind: "sleep", ms }, delayMs: soonest(ms, node.timeoutMs) }
      }
      case "approval": {
        const message = await field("message")
        const fallback = await field("default")
        const waitingOn: WaitingOn = {
          kind: "approval",
          ...(message !== undefined && { message: toText(message) }),
          ...((fallback === "approve" || fallback === "reject") && { default: fallback }),
        }
        return { kind: "wait", waitingOn, delayMs: node.timeoutMs }
      }
      case "workflow":
        return { kind: "wait", waitingOn: this.#childRuns.begin(toText((await field("workflow")) ?? null)), delayMs: 0 }
      case "wait": {
        const { text: condition } = await this.#conditions.build(claim, node)
        return { kind: "wait", waitingOn: { kind: "condition", condition, everyMs: node.wait!.everyMs }, delayMs: 0 }
      }
      default:
        return executor satisfies never
    }
  }

  #sleepMs(duration: Json | undefined, until: Json | undefined): number {
    if (until === undefined) {
      const ms = parseDuration(duration)
      if (ms === null) throw new TaskFailure(`duration is ${JSON.stringify(duration)}, but must be ${DURATION_HINT}`)
      return ms
    }
    const at = typeof until === "string" ? Date.parse(until) : Number.NaN
    if (Number.isNaN(at)) {
      throw new TaskFailure(`until is ${JSON.stringify(until)}, but must be an instant such as 2026-01-31T10:00:00Z`)
    }
    return Math.max(0, at - this.#options.clock.now())
  }

  /**
   * Returns the change for a row that is due; null when the engine keeps its claim to check its condition. Rejects for faults that are not
   * the task's: its claim is then released.
   */
  async resume(claim: TaskClaim): Promise<Change | null> {
    const { node } = nodeOf(this.#options.store, claim)
    if (claim.wait!.on.kind === "resume" && !isCancelling(claim)) return { ...fenceOf(claim), kind: "requeue" }
    const step = await this.#step(claim, node)
    if ("held" in step) return null
    if ("requeue" in step) return { ...fenceOf(claim), kind: "requeue" }
    if ("result" in step) return await this.toChange(claim, node, step.result)
    return { ...fenceOf(claim), kind: "wait", ...step, resumes: claim.wait!.resumes }
  }

  async #step(claim: TaskClaim, node: Node): Promise<WaitStep | Held | Requeue> {
    const { on: waitingOn, elapsedMs } = claim.wait!
    try {
      if (isCancelling(claim)) return await this.#cancel(waitingOn)
      const limitMs = timeLimitOf(node, waitingOn)
      // The row may be resumed late: a sleep that ended before the timeout is a success.
      if (waitingOn.kind === "sleep" && elapsedMs >= waitingOn.ms && waitingOn.ms < (limitMs ?? Number.POSITIVE_INFINITY))
        return { result: { state: "success" } }
      if (limitMs !== null && elapsedMs >= limitMs) return await this.#timeOut(waitingOn, limitMs)
      const leftMs = limitMs === null ? null : limitMs - elapsedMs
      const began = this.#options.clock.monotonic()
      const step = await this.#check(claim, node, waitingOn, leftMs)
      return withinLimit(step, leftMs === null ? null : Math.max(0, leftMs - (this.#options.clock.monotonic() - began)))
    } catch (error) {
      if (!isTaskFault(error)) throw error
      return { result: { state: "failed", error: error.message, retryable: false } }
    }
  }

  async #check(claim: TaskClaim, node: Node, waitingOn: WaitingOn, leftMs: number | null): Promise<WaitStep | Held | Requeue> {
    switch (waitingOn.kind) {
      case "sleep":
        return { waitingOn, delayMs: waitingOn.ms - claim.wait!.elapsedMs }
      case "approval":
      case "callback":
      case "resume":
        return { waitingOn, delayMs: null }
      case "workflow":
        return await this.#childRuns.check(claim, node, waitingOn)
      case "poll":
        return await this.#polls.poll(waitingOn, claim, node, leftMs)
      case "condition":
        if (node.command !== undefined) return nextCommandCheck(claim, waitingOn)
        // A program with an engine of its own checks nothing: a server that shares the database does.
        if (this.#options.conditions === undefined)
          return { waitingOn: { ...waitingOn, last: NOT_HERE }, delayMs: ELSEWHERE_MS }
        return await this.#watch(claim, node)
      default:
        return waitingOn satisfies never
    }
  }

  async #watch(claim: TaskClaim, node: Node): Promise<Held> {
    const condition = await this.#conditions.build(claim, node)
    const { timeoutMs, wait } = node
    if (!this.watches.add(claim, condition, { everyMs: wait!.everyMs, timeoutMs })) throw new Error("the engine stops")
    return { held: true }
  }

  /** Reads the claim of a watched row again: its run may be being cancelled. */
  async #finishWatched(fence: Fence, result: WaitResult): Promise<Change | null> {
    const { store } = this.#options
    const [claim] = await store.readClaims([fence])
    if (claim === undefined || claim.kind === "job") return null
    await store.getVersion(claim.versionId)
    return await this.toChange(claim, nodeOf(store, claim).node, result)
  }

  /** Cancels a child run first; the end of the child resumes this row again. */
  async #cancel(waitingOn: WaitingOn): Promise<WaitStep> {
    if (waitingOn.kind === "workflow" && !(await this.#childRuns.cancel(waitingOn))) return { waitingOn, delayMs: null }
    return { result: { state: "cancelled" } }
  }

  async #timeOut(waitingOn: WaitingOn, limitMs: number): Promise<WaitStep> {
    if (waitingOn.kind === "approval" && waitingOn.default !== undefined) {
      const comment = `nobody answered within ${formatDuration(limitMs)}`
      const approved = waitingOn.default === "approve"
      const answer = { approved, comment, by: null, at: iso(this.#options.clock.now()) }
      return { result: approvalResult(answer, `rejected: ${comment}`) }
    }
    if (waitingOn.kind === "workflow") await this.#childRuns.cancel(waitingOn)
    const last = "last" in waitingOn ? waitingOn.last : null
    return { result: { state: "timeout", error: waitTimedOut(limitMs, last) } }
  }

  /** Returns the change for the result of a waiting row, decided here or by an external signal. */
  async toChange(claim: TaskClaim, node: Node, result: WaitResult): Promise<Change> {
    const { output: value, stored, ...rest } = result
    const output = value === undefined ? stored : await writeOutput(this.#options, claim, node.name, value)
    const error = result.state === "success" ? await this.#outputProblem(node, output) : null
    const ended: Pick<AttemptResult, "state" | "error" | "output" | "retryable"> =
      error === null ? { ...rest, ...(output !== undefined && { output }) } : { state: "failed", error }
    const finishedAt = this.#options.clock.now()
    return await this.#changes.toChange(claim, { ...ended, startedAt: null, finishedAt }, isCancelling(claim))
  }

  #outputProblem({ output: schema }: Node, output: Output = { inline: null }): Promise<string | null> | null {
    return schema === undefined
      ? null
      : outputProblem({ outputs: this.#outputs, evaluator: this.#options.evaluator }, schema, output)
  }
}

/** Returns the result of an answered approval. `error`: that of a rejected one. */
export const approvalResult = ({ approved, comment, by, at }: ApprovalAnswer, error: string): WaitResult => {
  const output = { approved, comment, by, at }
  return approved ? { state: "success", output } : { state: "failed", error, output, retryable: false }
}

/** Returns whether the run is being cancelled, or a group around the task is overdue. */
const isCancelling = ({ run, wait }: TaskClaim): boolean => run.cancelling !== null || wait?.mustEnd === true

/**
 * Returns how long the attempt may take in all; null: without limit. Deferred work has a limit of its own: the task's timeout, which
 * has a default, applies to the launched process only.
 */
const timeLimitOf = (node: Node, waitingOn: WaitingOn): number | null => {
  if (waitingOn.kind === "resume") return null
  if (waitingOn.kind !== "poll" && waitingOn.kind !== "callback") return node.timeoutMs
  const timeoutMs = waitingOn.kind === "poll" ? waitingOn.poll.timeoutMs : waitingOn.timeoutMs
  return soonest(node.deferTimeoutMs ?? null, timeoutMs === undefined ? null : waitingOn.since + timeoutMs)
}

/** Returns the next step of a command: after a check, it waits for the time of the next one. */
const nextCommandCheck = (
  { wait }: TaskClaim,
  { checked, ...waitingOn }: Extract<WaitingOn, { kind: "condition" }>,
): WaitStep | Requeue =>
  checked === true ? { waitingOn, delayMs: untilNextCheck(waitingOn.everyMs, wait!.elapsedMs) } : { requeue: true }

const withinLimit = <Step extends object>(step: WaitStep | Step, leftMs: number | null): WaitStep | Step =>
  "waitingOn" in step ? { ...step, delayMs: soonest(step.delayMs, leftMs) } : step
