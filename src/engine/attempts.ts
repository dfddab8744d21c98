// The attempts that this engine has in flight: from a claim to its assignment, through the runner, to the change that ends it.
// Each ends as one outcome, whatever ended it.

import { type Inputs, isTaskFault } from "./inputs.ts"
import type { EngineOptions } from "./ports.ts"
import { messageOf, Runner, Stop } from "./runner.ts"
import type { AttemptResult, Change } from "../core/change.ts"
import { decide } from "../core/decide.ts"
import { toText } from "../core/expressions.ts"
import { jobBudget, jobWorkflow } from "../core/job-node.ts"
import type { CompiledWorkflow, Node } from "../core/workflow.ts"
import type { Assignment, StopReason } from "../executors/executor.ts"
import type { CancelReason, Claim } from "../store/store.ts"

class Live extends Stop {
  readonly claim: Claim
  cancelling: boolean

  constructor(claim: Claim) {
    super()
    this.claim = claim
    this.cancelling = claim.run.cancelling !== null
  }
}

export class Attempts {
  readonly #options: EngineOptions
  readonly #inputs: Inputs
  readonly #emit: (change: Change) => void
  readonly #live = new Map<string, Live>()
  readonly #runner: Runner

  constructor(options: EngineOptions, inputs: Inputs, emit: (change: Change) => void) {
    this.#options = options
    this.#inputs = inputs
    this.#emit = emit
    const { executors, clock } = options
    this.#runner = new Runner({ executors, clock, readOutput: (key) => inputs.read(key) })
  }

  get size(): number {
    return this.#live.size
  }

  has(attemptId: string): boolean {
    return this.#live.has(attemptId)
  }

  /** Runs a claim to its end. The claim is committed: the record comes before the effect. */
  async launch(claim: Claim): Promise<void> {
    const live = new Live(claim)
    this.#live.set(claim.attemptId, live)
    const workflow = claim.job === null ? this.#options.store.compiledNow(claim.versionId) : jobWorkflow(claim.job)
    const node = workflow.nodes[claim.node]!
    const result = await this.#run(live, workflow, node)
    this.#options.observer?.ended?.(claim, node, result)
    const keeps = node.cache !== undefined && result.state === "success"
    const cache = keeps ? await this.#cacheKey(claim, workflow, node) : undefined
    const { row, attemptId } = claim
    const { failures, losses } = claim.job === null ? claim : jobBudget(claim.attempt)
    const task = { row, attemptId, failures, losses, cancelling: live.cancelling }
    const change = decide(task, node, result, this.#options.random.next())
    if (claim.job !== null && change.kind === "end") await this.#inputs.tidyJob(claim.job.id)
    this.#live.delete(claim.attemptId)
    this.#emit(cache !== undefined && change.kind === "end" ? { ...change, cache } : change)
  }

  /** The run is being cancelled: what runs of it is stopped, nothing of it is tried again. */
  cancelRun(runSeq: number, reason: CancelReason): void {
    for (const live of this.#live.values()) {
      if (live.claim.runSeq !== runSeq || live.cancelling) continue
      live.cancelling = true
      live.stop(reason === "timeout" ? "timeout" : "cancel")
    }
  }

  /** Its job was cancelled or deleted. */
  cancel(attemptId: string): void {
    const live = this.#live.get(attemptId)
    if (live === undefined || live.cancelling) return
    live.cancelling = true
    live.stop("cancel")
  }

  /** Somebody else owns it now. */
  lose(attemptId: string): void {
    this.#live.get(attemptId)?.stop("lost")
  }

  stopAll(reason: StopReason): void {
    for (const live of this.#live.values()) live.stop(reason)
  }

  async #run(live: Live, workflow: CompiledWorkflow, node: Node): Promise<AttemptResult> {
    if (!this.#options.executors.has(node.executor)) {
      return this.#runner.failed(`there is no executor ${node.executor} here`, false)
    }
    let assignment: Assignment
    try {
      assignment = await this.#inputs.assignment(live.claim, workflow, node)
      Object.assign(assignment.env, this.#options.observer?.environment?.(live.claim))
    } catch (error) {
      if (isTaskFault(error)) return this.#runner.failed(error.message, false)
      return this.#runner.failed(`could not prepare the task: ${messageOf(error)}`, true)
    }
    const { row, attemptId } = live.claim
    return this.#runner.run(assignment, live, {
      started: ({ at, externalId }) =>
        this.#emit({ row, attemptId, kind: "started", at, ...(externalId !== undefined && { externalId }) }),
      progress: () => {},
    })
  }

  /** A success stays one when its key cannot be told: it is just not kept for others. */
  async #cacheKey(
    claim: Claim,
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
