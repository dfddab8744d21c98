// The attempts that this engine has in flight: from a claim to its assignment, through the runner, to the change that ends it.
// Each ends as one outcome, whatever ended it.

import { messageOf } from "../../core/model/error-message.ts"
import { cancellingOf, nodeOf } from "./claims.ts"
import { ChangeBuilder } from "./change-builder.ts"
import { type AssignmentBuilder, isTaskFault } from "./assignment-builder.ts"
import type { EngineOptions } from "../ports.ts"
import { ProgressThrottle } from "./progress-throttle.ts"
import { missingExecutor, AttemptRunner, StopSignal } from "./attempt-runner.ts"
import { type AttemptResult, type Change, fenceOf } from "../../core/model/change.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { Assignment, LaunchContext, StopReason } from "../../executors/executor.ts"
import type { CancelReason, Claim } from "../../store/contract/store.ts"

class Live extends StopSignal {
  readonly claim: Claim
  readonly workflow: CompiledWorkflow
  readonly node: Node
  /** It lives elsewhere, and takes none of this machine's slots. */
  readonly remote: boolean
  cancelling: boolean
  /** Left to whoever takes it over, as this engine stops. */
  left = false

  constructor(claim: Claim, { store, executors }: EngineOptions) {
    super()
    const { workflow, node } = nodeOf(store, claim)
    this.claim = claim
    this.workflow = workflow
    this.node = node
    this.remote = executors.get(node.executor)?.remote === true
    this.cancelling = cancellingOf(claim) !== null
  }
}

export class Attempts {
  readonly #options: EngineOptions
  readonly #inputs: AssignmentBuilder
  readonly #emit: (change: Change) => void
  readonly #live = new Map<string, Live>()
  readonly #runner: AttemptRunner
  readonly #conclusions: ChangeBuilder
  #remote = 0

  constructor(options: EngineOptions, inputs: AssignmentBuilder, emit: (change: Change) => void) {
    this.#options = options
    this.#inputs = inputs
    this.#emit = emit
    this.#conclusions = new ChangeBuilder(options, inputs)
    const { executors, clock } = options
    this.#runner = new AttemptRunner({ executors, clock, readOutput: (key) => inputs.read(key) })
  }

  get size(): number {
    return this.#live.size
  }

  /** Those of them that live elsewhere. */
  get remote(): number {
    return this.#remote
  }

  has(attemptId: string): boolean {
    return this.#live.has(attemptId)
  }

  /** Runs a claim to its end. The claim is committed: the record comes before the effect. */
  async launch(claim: Claim): Promise<void> {
    const live = new Live(claim, this.#options)
    this.#live.set(claim.attemptId, live)
    if (live.remote) this.#remote += 1
    const cancelling = cancellingOf(claim)
    if (cancelling !== null) live.stop(stopOf(cancelling))
    const result = await this.#run(live)
    const change = await this.#conclusions.toChange(claim, result, live.cancelling)
    this.#live.delete(claim.attemptId)
    if (live.remote) this.#remote -= 1
    if (!(live.left && result.state === "lost")) this.#emit(change)
  }

  /** The run is being cancelled: what runs of it is stopped, nothing of it is tried again. */
  cancelRun(runSeq: number, reason: CancelReason): void {
    for (const live of this.#live.values()) {
      if (live.claim.kind === "job" || live.claim.runSeq !== runSeq || live.cancelling) continue
      live.cancelling = true
      live.stop(stopOf(reason))
    }
  }

  /** Its job was cancelled or deleted, or a group around it is overdue. */
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
    for (const live of this.#live.values()) {
      live.left = live.remote && reason === "shutdown"
      live.stop(reason)
    }
  }

  async #run(live: Live): Promise<AttemptResult> {
    const { claim, workflow, node } = live
    if (!this.#options.executors.has(node.executor)) {
      return this.#runner.failed(missingExecutor(node), false)
    }
    let assignment: Assignment
    try {
      assignment = await this.#inputs.build(claim, workflow, node)
      Object.assign(assignment.env, this.#options.observer?.environment?.(claim))
    } catch (error) {
      if (isTaskFault(error)) return this.#runner.failed(error.message, false)
      return this.#runner.failed(`could not prepare the task: ${messageOf(error)}`, true)
    }
    const fence = fenceOf(claim)
    let progress: ProgressThrottle | undefined
    const teller = (): ProgressThrottle =>
      (progress ??= new ProgressThrottle(this.#options.clock, ({ fraction = null, details = null }) =>
        this.#emit({ ...fence, kind: "progress", fraction, details }),
      ))
    const told: Pick<LaunchContext, "started" | "progress"> = {
      started: ({ at, externalId }) =>
        this.#emit({ ...fence, kind: "started", at, ...(externalId !== undefined && { externalId }) }),
      progress: (update) => teller().report(update),
    }
    try {
      return await this.#runner.run(assignment, live, told)
    } finally {
      progress?.stop()
    }
  }
}

const stopOf = (reason: CancelReason): StopReason => (reason === "timeout" ? "timeout" : "cancel")
