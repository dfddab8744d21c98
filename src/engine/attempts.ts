// The attempts that this engine has in flight: launch, clocks, stop. Each ends as one outcome, whatever ended it.

import { type Deadline, Deadlines } from "./deadlines.ts"
import { type Inputs, isTaskFault } from "./inputs.ts"
import type { EngineOptions } from "./ports.ts"
import type { AttemptResult, Change } from "../core/change.ts"
import { decide } from "../core/decide.ts"
import { toText } from "../core/expressions.ts"
import { jobBudget, jobWorkflow } from "../core/job-node.ts"
import type { JsonObject } from "../core/json.ts"
import type { Clock } from "../core/ports.ts"
import { checkSchema } from "../core/schema.ts"
import type { CompiledWorkflow, Node } from "../core/workflow.ts"
import type { Assignment, LaunchContext, StopReason } from "../executors/executor.ts"
import type { CancelReason, Claim } from "../store/store.ts"

/** A live attempt, and what an executor is told about it. The signal is made when somebody asks for it: most never do. */
class Live implements Pick<LaunchContext, "signal"> {
  readonly claim: Claim
  cancelling: boolean
  #reason: StopReason | null = null
  #abort: AbortController | null = null

  constructor(claim: Claim) {
    this.claim = claim
    this.cancelling = claim.run.cancelling !== null
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.#reason !== null) this.#abort.abort(this.#reason)
    return this.#abort.signal
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    this.#reason ??= reason
    this.#abort?.abort(this.#reason)
  }
}

export class Attempts {
  readonly #options: EngineOptions
  readonly #inputs: Inputs
  readonly #emit: (change: Change) => void
  readonly #live = new Map<string, Live>()
  readonly #deadlines: Deadlines

  constructor(options: EngineOptions, inputs: Inputs, emit: (change: Change) => void) {
    this.#options = options
    this.#inputs = inputs
    this.#emit = emit
    this.#deadlines = new Deadlines(options.clock)
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
    const result = await this.#run(live, workflow, node).catch((error: unknown) => this.#broken(error))
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
      Object.assign(assignment.env, this.#options.observer?.environment?.(live.claim))
    } catch (error) {
      if (isTaskFault(error)) return fail(error.message)
      return { ...fail(`could not prepare the task: ${messageOf(error)}`), retryable: true }
    }
    const attempt = new AttemptClock(clock, node, live)
    this.#deadlines.add(attempt)
    try {
      const result = await executor.launch(assignment, {
        get signal() {
          return live.signal
        },
        started: ({ at, externalId }) => {
          attempt.started()
          this.#deadlines.moved(attempt)
          const { row, attemptId } = live.claim
          this.#emit({ row, attemptId, kind: "started", at, ...(externalId !== undefined && { externalId }) })
        },
        progress: () => {},
      })
      return node.output === undefined ? attempt.explain(result) : await this.#checked(attempt.explain(result), node.output)
    } finally {
      this.#deadlines.remove(attempt)
    }
  }

  /** An output that does not fit its schema fails the attempt. */
  async #checked(result: AttemptResult, schema: JsonObject): Promise<AttemptResult> {
    if (result.state !== "success") return result
    const output = result.output ?? { inline: null }
    const value = "inline" in output ? output.inline : await this.#inputs.read(output.key)
    const problem = checkSchema(schema, value)
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
class AttemptClock implements Deadline {
  at: number
  readonly #clock: Clock
  readonly #node: Node
  readonly #live: Live
  #started = false
  #expired = false

  constructor(clock: Clock, node: Node, live: Live) {
    this.#clock = clock
    this.#node = node
    this.#live = live
    this.at = this.#from(node.startTimeoutMs)
  }

  started(): void {
    this.#started = true
    this.at = this.#from(this.#node.timeoutMs)
  }

  expire(): void {
    this.#expired = true
    this.#live.stop("timeout")
  }

  /** Puts the reason into the error of an attempt that ran out of time. */
  explain(result: AttemptResult): AttemptResult {
    if (result.state !== "timeout" || !this.#expired) return result
    const { timeoutMs, startTimeoutMs } = this.#node
    const error = this.#started
      ? `timed out after ${formatDuration(timeoutMs ?? 0)}`
      : `did not start within ${formatDuration(startTimeoutMs ?? 0)}`
    return { ...result, error }
  }

  #from(ms: number | null): number {
    return ms === null ? Number.POSITIVE_INFINITY : this.#clock.now() + ms
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
