// Judges what the claim lane cannot: rules, `if`, fan-outs, groups, caches, keyed limits, and the end of containers. Taken from a lane
// of its own, without a slot and without an attempt; every verdict is a change in the inbox.

import { gather } from "./gather.ts"
import { EXPAND_CHUNK } from "../loop/inbox.ts"
import { type AssignmentBuilder, isTaskFault } from "../attempts/assignment-builder.ts"
import type { EngineOptions } from "../ports.ts"
import type { WaitingTasks } from "../waiting/waiting-tasks.ts"
import { type Change, fenceOf } from "../../core/model/change.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import { fanOut, ifPerInstance, instanceLane, evaluateRule } from "../../core/rules/gate.ts"
import type { Json } from "../../core/model/json.ts"
import { type RunLaneKey, workLane } from "../../core/routing/lanes.ts"
import { isGroup, isInstance, shortName } from "../../core/model/task-path.ts"
import { innerRows, keyLimit, limitsOf, taskPriority } from "../../core/rules/new-rows.ts"
import { upstreamEnd, type SkipReason, taskEnded } from "../../core/model/status.ts"
import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

type Decision = Change extends infer C ? (C extends Change ? Omit<C, "row" | "attemptId"> : never) : never

export class Gate {
  readonly #options: EngineOptions
  readonly #inputs: AssignmentBuilder
  readonly #waiting: Pick<WaitingTasks, "begin">

  constructor(options: EngineOptions, inputs: AssignmentBuilder, waiting: Pick<WaitingTasks, "begin">) {
    this.#options = options
    this.#inputs = inputs
    this.#waiting = waiting
  }

  /** Never rejects for a fault of the task; a fault of ours (a store that is away) rejects, and the claim is given back. */
  async evaluate(claim: TaskClaim, emit: (change: Change) => void): Promise<void> {
    const fence = fenceOf(claim)
    const say = (verdict: Decision): void => emit({ ...fence, ...verdict })
    try {
      await this.#judge(claim, say)
    } catch (error) {
      if (!isTaskFault(error)) throw error
      say({ kind: "fail", error: error.message })
    }
  }

  async #judge(claim: TaskClaim, say: (verdict: Decision) => void): Promise<void> {
    const workflow = this.#options.store.compiledNow(claim.versionId)
    const node = workflow.nodes[claim.node]!
    const isItem = isInstance(node, claim.kind)
    if (claim.kind !== "task" && claim.childrenCreated > 0 && claim.childrenPending === 0) {
      say(await gather(this.#options, claim, workflow))
      return
    }
    const scope = await this.#inputs.scope(claim, workflow, node)
    if (!isItem && claim.childrenCreated === 0) {
      const skip = evaluateRule(node.rule, { total: node.upstream.length, ...claim.upstream })
      if (skip !== null) {
        say({ kind: "skip", skipReason: skip, reason: ruleReason(claim, workflow, node, skip) })
        return
      }
    }
    if (node.if !== undefined && ifPerInstance(node) === isItem && claim.childrenCreated === 0) {
      if (!(await this.#truth(node.if, scope))) {
        say({ kind: "skip", skipReason: "waived", reason: `if: ${node.if} is false` })
        return
      }
    }
    if (claim.kind === "fan") await this.#expand(claim, workflow, node, scope, say)
    else if (claim.kind === "group") openGroup(claim, workflow, say)
    else await this.#admit(claim, workflow, node, scope, say)
  }

  async #truth(source: string, scope: ExpressionScope): Promise<boolean> {
    const value = await this.#options.evaluator.evaluate(source, scope)
    return value !== false && value !== null && value !== 0 && value !== ""
  }

  async #expand(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    scope: ExpressionScope,
    say: (verdict: Decision) => void,
  ): Promise<void> {
    const { evaluator, maxFanout } = this.#options
    const fan = node.fan!
    const values: { foreach?: Json; parallel?: Json } = {}
    if (fan.foreach !== undefined) values.foreach = await evaluator.render(fan.foreach, scope)
    if (fan.parallel !== undefined) values.parallel = await evaluator.render(fan.parallel, scope)
    const plan = fanOut({ ...values, reference: fan.reference }, maxFanout)
    if ("problem" in plan) {
      say({ kind: "fail", error: plan.problem })
      return
    }
    if (plan.total === 0) {
      say({ kind: "gather", status: "success", output: { inline: [] } })
      return
    }
    const run = scopeOf(claim)
    const lane = instanceLane(run, node)
    const limits = isGroup(node) || lane === workLane(run, node) ? limitsOf(workflow, claim.node, claim.runId) : []
    const priority = taskPriority(node, claim.run.priority)
    for (let offset = claim.childrenCreated; offset < plan.total; offset += EXPAND_CHUNK) {
      const length = Math.min(EXPAND_CHUNK, plan.total - offset)
      const items = Array.from({ length }, (_, i) => plan.itemAt(offset + i))
      say({ kind: "expand", total: plan.total, offset, items, lane, priority, limits })
    }
  }

  async #admit(
    claim: TaskClaim,
    workflow: CompiledWorkflow,
    node: Node,
    scope: ExpressionScope,
    say: (verdict: Decision) => void,
  ): Promise<void> {
    const { evaluator, store } = this.#options
    if (node.cache !== undefined) {
      const key = toText(await evaluator.evaluate(node.cache.key, scope))
      const output = await store.getCached({ workflowId: claim.workflowId, task: node.name, key })
      if (output !== null) {
        say({ kind: "reuse", output })
        return
      }
    }
    if (isWaitingExecutor(node.executor)) {
      say(await this.#waiting.begin(node, node.executor, scope))
      return
    }
    const limits = limitsOf(workflow, claim.node, claim.runId)
    if (node.concurrencyKey !== undefined) {
      limits.push(keyLimit(node, claim.workflowId, toText(await evaluator.evaluate(node.concurrencyKey, scope))))
    }
    say({ kind: "enqueue", lane: workLane(scopeOf(claim), node), limits })
  }
}

/** The rows inside a group. An opening that was cut off goes on where it stopped; a retry may go on with all that are there. */
const openGroup = (claim: TaskClaim, workflow: CompiledWorkflow, say: (verdict: Decision) => void): void => {
  const run = { ...scopeOf(claim), priority: claim.run.priority }
  const limits = limitsOf(workflow, claim.node, claim.runId)
  const chunks = innerRows(workflow, claim.node, run, EXPAND_CHUNK)
  const total = chunks.reduce((sum, rows) => sum + rows.length, 0)
  if (claim.childrenCreated === total) say({ kind: "open_group", total, offset: total, rows: [], limits })
  let offset = 0
  for (const rows of chunks) {
    if (offset >= claim.childrenCreated) say({ kind: "open_group", total, offset, rows, limits })
    offset += rows.length
  }
}

/** Whose lanes its rows wait in. */
const scopeOf = ({ runId, run }: TaskClaim): RunLaneKey => ({ id: runId, private: run.private, rootRunId: run.rootRunId })

/** Names the upstreams that kept the rule from being met. */
const ruleReason = (claim: TaskClaim, workflow: CompiledWorkflow, node: Node, skip: SkipReason): string => {
  const ends = node.upstream.map((index) => ({
    name: shortName(workflow.nodes[index]!),
    status: claim.reads.get(index)?.status ?? "pending",
  }))
  const guilty = ends.filter(({ status }) =>
    skip === "unmet" ? taskEnded(status) && upstreamEnd(status, "unmet") !== "success" : true,
  )
  const told = guilty
    .slice(0, 3)
    .map(({ name, status }) =>
      `${name} ${status === "success" ? "succeeded" : `was ${status}`}`.replace("was failed", "failed"),
    )
  const more = guilty.length > 3 ? ` and ${guilty.length - 3} more` : ""
  return `run_when ${node.rule} is not met: ${told.join(", ")}${more}`
}
