// Tasks that go on without a slot: the gate begins them here, and here they come back when they are due. Each time they wait on
// or end. Whatever is decided holds for the attempt, whoever decides it: two servers that were given the same row one after the
// other come to the same.

import { approvalOutput } from "./approvals.ts"
import { ChildRuns } from "./child-runs.ts"
import { nodeOf } from "../attempts/claims.ts"
import type { ChangeBuilder } from "../attempts/change-builder.ts"
import { type AssignmentBuilder, isTaskFault } from "../attempts/assignment-builder.ts"
import { outputOf } from "../attempts/outputs.ts"
import { DeferredPolls } from "./deferred-polls.ts"
import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "../attempts/task-failure.ts"
import { type AttemptResult, type Change, fenceOf } from "../../core/model/change.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import type { Json } from "../../core/model/json.ts"
import { iso } from "../../core/model/ports.ts"
import { DURATION_HINT, parseDuration, formatDuration } from "../../core/model/quantities.ts"
import { soonest } from "../../core/time/soonest.ts"
import { checkSchema } from "../../core/model/json-schema.ts"
import type { WaitingExecutor, WaitingOn } from "../../core/model/waiting-on.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

/** What becomes of a woken row: it waits on, or its attempt has this result. */
export type WaitStep = { waitingOn: WaitingOn; delayMs: number | null } | { result: WaitResult }

/** A result as far as it is decided here. */
export type WaitResult = Pick<AttemptResult, "state"> & Partial<Pick<AttemptResult, "error" | "retryable">> & { output?: Json }

type Wait = Omit<Extract<Change, { kind: "wait" }>, "row" | "attemptId">

export class WaitingTasks {
  readonly #options: EngineOptions
  readonly #conclusions: ChangeBuilder
  readonly #polls: DeferredPolls
  readonly #children: ChildRuns

  constructor(options: EngineOptions, inputs: AssignmentBuilder, conclusions: ChangeBuilder) {
    this.#options = options
    this.#conclusions = conclusions
    this.#polls = new DeferredPolls(options)
    this.#children = new ChildRuns(options, inputs)
  }

  /** Ends what is asked of others just now: those rows are given back. */
  stop(): void {
    this.#polls.stop()
  }

  /** What a task begins to wait for. A fault of the task is thrown as one. */
  async begin(node: Node, executor: WaitingExecutor, scope: ExpressionScope): Promise<Wait> {
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
        const waits: WaitingOn = {
          kind: "approval",
          ...(message !== undefined && { message: toText(message) }),
          ...((fallback === "approve" || fallback === "reject") && { default: fallback }),
        }
        return { kind: "wait", waitingOn: waits, delayMs: node.timeoutMs }
      }
      case "workflow":
        return { kind: "wait", waitingOn: this.#children.begin(toText((await field("workflow")) ?? null)), delayMs: 0 }
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

  /** A row that was due. Rejects for faults that are not the task's: then it is given back. */
  async resume(claim: TaskClaim, emit: (change: Change) => void): Promise<void> {
    const { node } = nodeOf(this.#options.store, claim)
    const fence = fenceOf(claim)
    const next = await this.#next(claim, node)
    if ("waitingOn" in next) emit({ ...fence, kind: "wait", ...next })
    else emit(await this.toChange(claim, node, next.result))
  }

  async #next(claim: TaskClaim, node: Node): Promise<WaitStep> {
    const { for: waits, elapsedMs } = claim.waitingOn!
    try {
      if (isStopping(claim)) return await this.#cancel(waits)
      const limitMs = limitOf(node, waits)
      // Whoever looks may come late: it was over in time.
      if (waits.kind === "sleep" && elapsedMs >= waits.ms && waits.ms < (limitMs ?? Number.POSITIVE_INFINITY))
        return { result: { state: "success" } }
      if (limitMs !== null && elapsedMs >= limitMs) return await this.#overdue(waits, limitMs)
      const left = limitMs === null ? null : limitMs - elapsedMs
      switch (waits.kind) {
        case "sleep":
          return { waitingOn: waits, delayMs: soonest(waits.ms - elapsedMs, left) }
        case "approval":
        case "callback":
          return { waitingOn: waits, delayMs: left }
        case "workflow":
          return bounded(await this.#children.check(claim, node, waits), left)
        case "poll":
          return bounded(await this.#polls.ask(waits, claim), left)
        default:
          return waits satisfies never
      }
    } catch (error) {
      if (!isTaskFault(error)) throw error
      return { result: { state: "failed", error: error.message, retryable: false } }
    }
  }

  /** Cancel goes down: a child run is cancelled first, and its end wakes this row again. */
  async #cancel(waits: WaitingOn): Promise<WaitStep> {
    if (waits.kind === "workflow" && !(await this.#children.cancel(waits))) return { waitingOn: waits, delayMs: null }
    return { result: { state: "cancelled" } }
  }

  async #overdue(waits: WaitingOn, limitMs: number): Promise<WaitStep> {
    if (waits.kind === "approval" && waits.default !== undefined) {
      const approved = waits.default === "approve"
      const at = iso(this.#options.clock.now())
      const comment = `nobody answered within ${formatDuration(limitMs)}`
      const output = approvalOutput({ approved, comment, by: null, at })
      if (approved) return { result: { state: "success", output } }
      return { result: { state: "failed", error: `rejected: ${comment}`, output, retryable: false } }
    }
    if (waits.kind === "workflow") await this.#children.cancel(waits)
    return { result: { state: "timeout", error: `timed out after ${formatDuration(limitMs)}` } }
  }

  /** The change that ends a waiting row, from here or from outside. */
  async toChange(claim: TaskClaim, node: Node, ended: WaitResult): Promise<Change> {
    const { output, ...rest } = this.#checked(node, ended)
    const result: AttemptResult = { ...rest, startedAt: null, finishedAt: this.#options.clock.now() }
    if (output !== undefined) result.output = await outputOf(this.#options, claim, node.name, output)
    return await this.#conclusions.toChange(claim, result, isStopping(claim))
  }

  #checked(node: Node, ended: WaitResult): WaitResult {
    if (ended.state !== "success" || node.output === undefined) return ended
    const problem = checkSchema(node.output, ended.output ?? null)
    return problem === null ? ended : { state: "failed", error: `the output does not fit its schema: ${problem}` }
  }
}

/** With its run, or with a group around it that is overdue. */
const isStopping = ({ run, waitingOn }: TaskClaim): boolean => run.cancelling !== null || waitingOn?.cancelRequested === true

/** How long the attempt may take in all; null: for ever. A default of a launched attempt's time does not bind what it defers. */
const limitOf = (node: Node, waits: WaitingOn): number | null => {
  const own = waits.kind === "poll" || waits.kind === "callback" ? (node.deferTimeoutMs ?? null) : node.timeoutMs
  const asked = waits.kind === "poll" ? waits.poll.timeoutMs : waits.kind === "callback" ? waits.timeoutMs : undefined
  const since = waits.kind === "poll" || waits.kind === "callback" ? waits.since : 0
  return soonest(own, asked === undefined ? null : since + asked)
}

const bounded = (next: WaitStep, left: number | null): WaitStep =>
  "waitingOn" in next ? { ...next, delayMs: soonest(next.delayMs, left) } : next
