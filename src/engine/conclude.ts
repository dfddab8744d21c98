// From how an attempt ended to the change that is written: the task's retry or end, and what of its output is kept for others.
// The same for work of this engine and for what a worker reports.

import type { Inputs } from "./inputs.ts"
import type { EngineOptions } from "./ports.ts"
import { messageOf } from "./runner.ts"
import type { AttemptResult, Change } from "../core/change.ts"
import { decide } from "../core/decide.ts"
import { toText } from "../core/expressions.ts"
import { jobBudget, jobWorkflow } from "../core/job-node.ts"
import type { CompiledWorkflow, Node } from "../core/workflow.ts"
import type { Claim, Store } from "../store/store.ts"

/** What a claim is about. */
export const nodeOf = (store: Pick<Store, "compiledNow">, claim: Claim): { workflow: CompiledWorkflow; node: Node } => {
  const workflow = claim.job === null ? store.compiledNow(claim.versionId) : jobWorkflow(claim.job)
  return { workflow, node: workflow.nodes[claim.node]! }
}

export class Conclusions {
  readonly #options: EngineOptions
  readonly #inputs: Inputs

  constructor(options: EngineOptions, inputs: Inputs) {
    this.#options = options
    this.#inputs = inputs
  }

  /** `cancelling`: whatever the result, it is not tried again. */
  async conclude(claim: Claim, result: AttemptResult, cancelling: boolean): Promise<Change> {
    const { workflow, node } = nodeOf(this.#options.store, claim)
    this.#options.observer?.ended?.(claim, node, result)
    const keeps = node.cache !== undefined && result.state === "success"
    const cache = keeps ? await this.#cacheKey(claim, workflow, node) : undefined
    const { row, attemptId } = claim
    const { failures, losses } = claim.job === null ? claim : jobBudget(claim.attempt)
    const change = decide({ row, attemptId, failures, losses, cancelling }, node, result, this.#options.random.next())
    if (claim.job !== null && change.kind === "end") await this.#inputs.tidyJob(claim.job.id)
    return cache !== undefined && change.kind === "end" ? { ...change, cache } : change
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
