// Turns the result of an attempt into the change to commit: finish, retry or wait. Used for attempts of this engine and for those that
// workers report.

import type { EngineOptions } from "../ports.ts"
import { copyToCache } from "./cached-outputs.ts"
import { nodeOf, objectPrefixOf, retriesUsed } from "./claims.ts"
import { buildScope } from "./expression-scope.ts"
import { removeJobFolder } from "./folders.ts"
import type { OutputReader } from "./outputs.ts"
import { printedTextWarning } from "./printed-text.ts"
import { type AttemptResult, type Change, fenceOf, type Output } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { indexKey } from "../../core/values/index-key.ts"
import type { JsonObject } from "../../core/values/json.ts"
import { decide } from "../../core/rules/changes/decide.ts"
import { isDeferral, readDeferral } from "../../core/rules/changes/defer.ts"
import { toText } from "../../core/expressions/expressions.ts"
import { type CompiledWorkflow, type Node, secretNames } from "../../core/model/workflow.ts"
import { soonest } from "../../core/time/soonest.ts"
import type { Claim, TaskClaim } from "../../store/contract/store.ts"

type Finish = Extract<Change, { kind: "finish" }>
type CacheEntry = NonNullable<Finish["cache"]>

export class ChangeBuilder {
  readonly #options: EngineOptions
  readonly #outputs: OutputReader

  constructor(options: EngineOptions, outputs: OutputReader) {
    this.#options = options
    this.#outputs = outputs
  }

  /** Turns the result of an attempt into a change. `cancelling`: the attempt is not retried, whatever its result. */
  toChange(claim: Claim, given: AttemptResult, cancelling: boolean): Change | Promise<Change> {
    if (given.suspended !== undefined) return suspend(claim, given, given.suspended)
    const deferral = isResumed(claim) ? null : deferralIn(given)
    const result = deferral === null ? given : this.#defer(claim, given, deferral, cancelling)
    if ("kind" in result) return result
    const { workflow, node } = nodeOf(this.#options.store, claim)
    const change = this.decide(claim, result, cancelling)
    // The attempt of a wait goes on after a check that said no.
    if (change.kind !== "wait") this.#options.observer?.attemptEnded?.(claim, node, result)
    if (change.kind !== "finish") return change
    if (claim.kind !== "job") {
      // Only commands print a text that is no output.
      const needsMore = result.state === "success" && (node.command !== undefined || node.cache !== undefined)
      return needsMore ? this.#afterSuccess(change, claim, workflow, node) : change
    }
    // Without the executor, the job ran on a worker.
    const executor = this.#options.executors.get(node.executor)
    if (executor === undefined || executor.folderless === true) return change
    return removeJobFolder(this.#options, claim.job.id).then(() => change)
  }

  async #afterSuccess(change: Finish, claim: TaskClaim, workflow: CompiledWorkflow, node: Node): Promise<Change> {
    const { output } = change.result
    await this.#warnOfText(claim, workflow, node, output)
    const cache = node.cache === undefined ? undefined : await this.#cacheEntry(claim, workflow, node, output)
    if (cache !== undefined) change.cache = cache
    return change
  }

  decide(claim: Claim, result: AttemptResult, cancelling: boolean): Change {
    const { node } = nodeOf(this.#options.store, claim)
    const history = { ...fenceOf(claim), ...retriesUsed(claim), cancelling }
    return decide(history, node, result, this.#options.random.next())
  }

  /** Logs a warning when an expression will read null, although the task has printed something. */
  async #warnOfText(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    output: Output = { inline: null },
  ): Promise<void> {
    const { objects, log } = this.#options
    const prefix = objectPrefixOf(claim, node)
    const warning = await printedTextWarning(objects, { workflow, node: claim.node, output, prefix })
    if (warning !== null) log.warn({ run: claim.runId, workflow: workflow.name, task: node.name }, warning)
  }

  /** Returns a wait for deferred work, or a failed result when the deferral is not valid. */
  #defer(claim: Claim, result: AttemptResult, given: JsonObject, cancelling: boolean): Change | AttemptResult {
    const { output: _, ...rest } = result
    const failed = (error: string): AttemptResult => ({ ...rest, state: "failed", error, retryable: false })
    if (cancelling) return { ...rest, state: "cancelled" }
    if (claim.kind === "job") return failed("a job cannot defer its work: make it a task of a workflow")
    const { node } = nodeOf(this.#options.store, claim)
    if (node.defer === undefined) return failed("it returned ork_defer, but the task does not set `defer: true`")
    const deferral = readDeferral(given, { secrets: secretNames(node), hosts: node.defer.hosts })
    if ("problem" in deferral) return failed(deferral.problem)
    const { startedAt, finishedAt } = result
    const since = startedAt === null ? 0 : Math.max(0, finishedAt - startedAt)
    const wait = { ...fenceOf(claim), kind: "wait", ...(startedAt !== null && { startedAt }) } as const
    if ("poll" in deferral) {
      const { poll } = deferral
      return { ...wait, waitingOn: { kind: "poll", poll, since, errors: 0 }, delayMs: poll.everyMs }
    }
    const { callback } = deferral
    const ownLimit = node.deferTimeoutMs === undefined ? null : node.deferTimeoutMs - since
    const delayMs = soonest(callback.timeoutMs ?? null, ownLimit)
    return { ...wait, waitingOn: { kind: "callback", since, ...callback }, delayMs }
  }

  /** Returns what to cache of a success. Undefined when that fails: the success remains. */
  async #cacheEntry(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    output: Output = { inline: null },
  ): Promise<CacheEntry | undefined> {
    const cache = node.cache!
    try {
      const scope = await buildScope(this.#outputs, claim, workflow, node)
      const key = toText(await this.#options.evaluator.evaluate(cache.key, scope))
      const entry = { key: indexKey(key), ttlMs: cache.ttlMs }
      return "inline" in output ? entry : { ...entry, output: await copyToCache(this.#options, claim, output) }
    } catch (error) {
      this.#options.log.warn({ run: claim.runId, error: messageOf(error) }, "failed to cache an output")
      return undefined
    }
  }
}

const suspend = (claim: Claim, { startedAt }: AttemptResult, suspended: NonNullable<AttemptResult["suspended"]>): Change => {
  const { message, delayMs, seenRequests } = suspended
  const waitingOn = { kind: "resume", message } as const
  return { ...fenceOf(claim), kind: "wait", waitingOn, delayMs, seenRequests, ...(startedAt !== null && { startedAt }) }
}

const isResumed = (claim: Claim): boolean => claim.kind !== "job" && claim.wait !== null

/** Returns the output of a success that asks to defer its work; null otherwise. */
const deferralIn = ({ state, output }: AttemptResult): JsonObject | null => {
  if (state !== "success" || output === undefined || !("inline" in output)) return null
  return isDeferral(output.inline) ? output.inline : null
}
