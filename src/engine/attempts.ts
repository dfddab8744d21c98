// The attempts that this engine has in flight: launch, clocks, stop. Each ends as one outcome, whatever ended it.

import { type Inputs, isTaskFault } from "./inputs.ts"
import type { EngineOptions } from "./ports.ts"
import type { AttemptResult, Change } from "../core/change.ts"
import { decide } from "../core/decide.ts"
import { toText } from "../core/expressions.ts"
import { checkSchema } from "../core/schema.ts"
import type { CompiledWorkflow, Node } from "../core/workflow.ts"
import type { Assignment, StopReason } from "../executors/executor.ts"
import type { CancelReason, Claim } from "../store/store.ts"

interface Live {
  claim: Claim
  abort: AbortController
  cancelling: boolean
}

export class Attempts {
  readonly #options: EngineOptions
  readonly #inputs: Inputs
  readonly #emit: (change: Change) => void
  readonly #live = new Map<string, Live>()

  constructor(options: EngineOptions, inputs: Inputs, emit: (change: Change) => void) {
    this.#options = options
    this.#inputs = inputs
    this.#emit = emit
  }

  get size(): number {
    return this.#live.size
  }

  has(attemptId: string): boolean {
    return this.#live.has(attemptId)
  }

  /** Runs a claim to its end. The claim is committed: the record comes before the effect. */
  async launch(claim: Claim): Promise<void> {
    const live: Live = { claim, abort: new AbortController(), cancelling: claim.run.cancelling !== null }
    this.#live.set(claim.attemptId, live)
    const workflow = this.#options.store.compiledNow(claim.versionId)
    const node = workflow.nodes[claim.node]!
    const result = await this.#run(live, workflow, node).catch((error: unknown) => this.#broken(error))
    const cache = result.state === "success" ? await this.#cacheKey(claim, workflow, node) : undefined
    this.#live.delete(claim.attemptId)
    const change = decide({ ...claim, cancelling: live.cancelling }, node, result, this.#options.random.next())
    this.#emit(cache !== undefined && change.kind === "end" ? { ...change, cache } : change)
  }

  /** Something of ours broke, not the task: whatever it was, the attempt has an end. */
  #broken(error: unknown): AttemptResult {
    const { clock } = this.#options
    return { state: "failed", startedAt: null, finishedAt: clock.now(), error: `could not run the task: ${messageOf(error)}` }
  }

  /** The run is being cancelled: what runs of it is stopped, nothing of it is tried again. */
  cancelRun(runSeq: number, reason: CancelReason): void {
    for (const live of this.#live.values()) {
      if (live.claim.runSeq !== runSeq || live.cancelling) continue
      live.cancelling = true
      this.#stop(live, reason === "timeout" ? "timeout" : "cancel")
    }
  }

  /** Somebody else owns it now. */
  lose(attemptId: string): void {
    const live = this.#live.get(attemptId)
    if (live !== undefined) this.#stop(live, "lost")
  }

  stopAll(reason: StopReason): void {
    for (const live of this.#live.values()) this.#stop(live, reason)
  }

  #stop(live: Live, reason: StopReason): void {
    if (!live.abort.signal.aborted) live.abort.abort(reason)
  }

  async #run(live: Live, workflow: CompiledWorkflow, node: Node): Promise<AttemptResult> {
    const { clock, executors } = this.#options
    const fail = (error: string): AttemptResult => ({
      state: "failed",
      startedAt: null,
      finishedAt: clock.now(),
      error,
      retryable: false,
    })
    const executor = executors.get(node.executor)
    if (executor === undefined) return fail(`there is no executor ${node.executor} here`)
    let assignment: Assignment
    try {
      assignment = await this.#inputs.assignment(live.claim, workflow, node)
    } catch (error) {
      if (isTaskFault(error)) return fail(error.message)
      return { ...fail(`could not prepare the task: ${messageOf(error)}`), retryable: true }
    }
    const clocks = new AttemptClocks(this.#options.clock, node, () => this.#stop(live, "timeout"))
    const launched = executor.launch(assignment, {
      signal: live.abort.signal,
      started: ({ at, externalId }) => {
        clocks.started()
        const { row, attemptId } = live.claim
        this.#emit({ row, attemptId, kind: "started", at, ...(externalId !== undefined && { externalId }) })
      },
    })
    const result = await launched.finally(() => clocks.stop())
    return await this.#checked(clocks.explain(result), node)
  }

  /** An output that does not fit its schema fails the attempt. */
  async #checked(result: AttemptResult, node: Node): Promise<AttemptResult> {
    if (result.state !== "success" || node.output === undefined) return result
    const output = result.output ?? { inline: null }
    const value = "inline" in output ? output.inline : await this.#inputs.read(output.key)
    const problem = checkSchema(node.output, value)
    if (problem === null) return result
    const { output: _, ...rest } = result
    return { ...rest, state: "failed", error: `the output does not fit its schema: ${problem}` }
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

/** The two clocks of an attempt: from dispatch to its start, and from its start to its end. */
class AttemptClocks {
  readonly #clock: EngineOptions["clock"]
  readonly #node: Node
  readonly #expire: () => void
  #cancel: (() => void) | null = null
  #expired: string | null = null

  constructor(clock: EngineOptions["clock"], node: Node, expire: () => void) {
    this.#clock = clock
    this.#node = node
    this.#expire = expire
    this.#set(node.startTimeoutMs, "did not start within")
  }

  started(): void {
    this.stop()
    this.#set(this.#node.timeoutMs, "timed out after")
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  /** Puts the reason into the error of an attempt that ran out of time. */
  explain(result: AttemptResult): AttemptResult {
    return result.state === "timeout" && this.#expired !== null ? { ...result, error: this.#expired } : result
  }

  #set(ms: number | null, what: string): void {
    if (ms === null) return
    this.#cancel = this.#clock.after(ms, () => {
      this.#expired = `${what} ${formatDuration(ms)}`
      this.#expire()
    })
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const formatDuration = (ms: number): string => {
  for (const [unit, size] of [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["m", 60_000],
    ["s", 1000],
  ] as const) {
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`
  }
  return `${ms}ms`
}
