// From how an attempt ended to the change that is written: the task's retry or end, and what of its output is kept for others.
// The same for work of this engine and for what a worker reports.

import { messageOf } from "../../core/model/error-message.ts"
import type { AssignmentBuilder } from "./assignment-builder.ts"
import { nodeOf, retriesUsed } from "./claims.ts"
import type { EngineOptions } from "../ports.ts"
import { type AttemptResult, type Change, fenceOf } from "../../core/model/change.ts"
import { decide } from "../../core/rules/decide.ts"
import { isDeferral, readDeferral } from "../../core/rules/defer.ts"
import { toText } from "../../core/expressions/expressions.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Claim, TaskClaim } from "../../store/contract/store.ts"

export class ChangeBuilder {
  readonly #options: EngineOptions
  readonly #inputs: AssignmentBuilder

  constructor(options: EngineOptions, inputs: AssignmentBuilder) {
    this.#options = options
    this.#inputs = inputs
  }

  /** `cancelling`: whatever the result, it is not tried again. */
  async toChange(claim: Claim, result: AttemptResult, cancelling: boolean): Promise<Change> {
    const deferred = this.#deferred(claim, result, cancelling)
    if (deferred !== null && "kind" in deferred) return deferred
    if (deferred !== null) return await this.toChange(claim, deferred, cancelling)
    const { workflow, node } = nodeOf(this.#options.store, claim)
    this.#options.observer?.attemptEnded?.(claim, node, result)
    const keeps = claim.kind !== "job" && node.cache !== undefined && result.state === "success"
    const cache = keeps ? await this.#cacheKey(claim, workflow, node) : undefined
    const task = { ...fenceOf(claim), ...retriesUsed(claim), cancelling }
    const change = decide(task, node, result, this.#options.random.next())
    if (claim.kind === "job" && change.kind === "finish") await this.#inputs.tidyJob(claim.job.id)
    return cache !== undefined && change.kind === "finish" ? { ...change, cache } : change
  }

  /** The work goes on elsewhere: the attempt waits for it, or fails when it cannot be told how. */
  #deferred(claim: Claim, result: AttemptResult, cancelling: boolean): Change | AttemptResult | null {
    if (isResumed(claim) || result.state !== "success" || result.output === undefined) return null
    const given = "inline" in result.output ? result.output.inline : null
    if (!isDeferral(given)) return null
    const { output: _, ...rest } = result
    const failed = (error: string): AttemptResult => ({ ...rest, state: "failed", error, retryable: false })
    if (cancelling) return { ...rest, state: "cancelled" }
    if (claim.kind === "job") return failed("a job cannot defer its work: make it a task of a workflow")
    const deferral = readDeferral(given)
    if ("problem" in deferral) return failed(deferral.problem)
    const fence = fenceOf(claim)
    const started = result.startedAt === null ? {} : { startedAt: result.startedAt }
    const since = result.startedAt === null ? 0 : Math.max(0, result.finishedAt - result.startedAt)
    if ("poll" in deferral) {
      const { poll } = deferral
      return { ...fence, kind: "wait", waitingOn: { kind: "poll", poll, since, errors: 0 }, delayMs: poll.everyMs, ...started }
    }
    const { timeoutMs } = deferral.callback
    const { deferTimeoutMs } = nodeOf(this.#options.store, claim).node
    const left = [timeoutMs, deferTimeoutMs === undefined ? undefined : deferTimeoutMs - since].filter((ms) => ms !== undefined)
    const delayMs = left.length === 0 ? null : Math.min(...left)
    return { ...fence, kind: "wait", waitingOn: { kind: "callback", since, ...deferral.callback }, delayMs, ...started }
  }

  /** A success stays one when its key cannot be told: it is just not kept for others. */
  async #cacheKey(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
  ): Promise<{ key: string; ttlMs: number | null } | undefined> {
    if (node.cache === undefined) return undefined
    try {
      const scope = await this.#inputs.scope(claim, workflow, node)
      return { key: toText(await this.#options.evaluator.evaluate(node.cache.key, scope)), ttlMs: node.cache.ttlMs }
    } catch (error) {
      this.#options.log.warn({ run: claim.runId, error: messageOf(error) }, "could not keep an output in the cache")
      return undefined
    }
  }
}

const isResumed = (claim: Claim): boolean => claim.kind !== "job" && claim.waitingOn !== null
