// The gate: decides on rows before they may run, and closes containers. Evaluates `run_when` rules, `if`, fan-outs, groups, caches and
// concurrency keys. Gate claims come from lanes of their own and use neither a slot nor an attempt; every decision is a change.

import { gather } from "./gather.ts"
import { copyFromCache } from "../attempts/cached-outputs.ts"
import { buildScope } from "../attempts/expression-scope.ts"
import type { OutputReader } from "../attempts/outputs.ts"
import { isTaskFault } from "../attempts/task-failure.ts"
import { EXPAND_CHUNK } from "../loop/inbox.ts"
import type { EngineOptions } from "../ports.ts"
import type { WaitingTasks } from "../waiting/waiting-tasks.ts"
import { type Change, fenceOf } from "../../core/model/change.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import { countedOutcome } from "../../core/rules/changes/effects.ts"
import { evaluateRule, fanOut, ifPerInstance, instanceLane } from "../../core/rules/changes/gate.ts"
import { indexKey } from "../../core/values/index-key.ts"
import type { Json } from "../../core/values/json.ts"
import { defaultLabel, labelOf } from "../../core/model/label.ts"
import { type RunLaneKey, workLane } from "../../core/routing/lanes.ts"
import { isGroup, isInstance, shortName } from "../../core/model/task-path.ts"
import { innerRows, keyLimit, limitsOf, taskPriority } from "../../core/rules/runs/new-rows.ts"
import { type SkipReason, isTaskFinished } from "../../core/model/status.ts"
import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

const MAX_NAMED_UPSTREAM = 3

/** A change without its fence. */
type Decision = Change extends infer C ? (C extends Change ? Omit<C, "row" | "attemptId"> : never) : never

/** A claim with everything that the gate reads about it. */
interface GatedTask {
  claim: TaskClaim
  workflow: CompiledWorkflow
  node: Node
  scope: ExpressionScope
}

export class Gate {
  readonly #options: EngineOptions
  readonly #outputs: OutputReader
  readonly #waiting: Pick<WaitingTasks, "begin">

  constructor(options: EngineOptions, outputs: OutputReader, waiting: Pick<WaitingTasks, "begin">) {
    this.#options = options
    this.#outputs = outputs
    this.#waiting = waiting
  }

  /** Returns the changes for a gate claim. A fault of the task fails the task; rejects for other faults (the store is unavailable). */
  async evaluate(claim: TaskClaim): Promise<Change[]> {
    const decisions = await this.#decide(claim).catch((error: unknown): Decision[] => {
      if (!isTaskFault(error)) throw error
      return [{ kind: "fail", error: error.message }]
    })
    const fence = fenceOf(claim)
    return decisions.map((decision) => ({ ...fence, ...decision }))
  }

  async #decide(claim: TaskClaim): Promise<Decision[]> {
    const workflow = this.#options.store.getLoadedVersion(claim.versionId)
    const node = workflow.nodes[claim.node]!
    if (claim.kind !== "task" && claim.childrenCreated > 0 && claim.childrenPending === 0) {
      return [await gather(this.#options, claim, workflow)]
    }
    const scope = await buildScope(this.#outputs, claim, workflow, node)
    const task: GatedTask = { claim, workflow, node, scope }
    const skip = claim.childrenCreated === 0 ? await this.#skip(task) : null
    if (skip !== null) return [skip]
    switch (claim.kind) {
      case "fan":
        return await this.#expand(task)
      case "group":
        return openGroup(task)
      case "task":
        return [await this.#begin(task)]
      default:
        return claim.kind satisfies never
    }
  }

  /** Evaluates the rule and `if`. Returns null when the task is not skipped. */
  async #skip(task: GatedTask): Promise<Decision | null> {
    const { claim, node, scope } = task
    const isFanInstance = isInstance(node, claim.kind)
    const skipReason = isFanInstance ? null : evaluateRule(node.rule, { total: node.upstream.length, ...claim.upstream })
    if (skipReason !== null) return { kind: "skip", skipReason, reason: ruleMessage(task, skipReason) }
    if (node.if === undefined || ifPerInstance(node) !== isFanInstance) return null
    if (isTruthy(await this.#options.evaluator.evaluate(node.if, scope))) return null
    return { kind: "skip", skipReason: "waived", reason: `if: ${node.if} is false` }
  }

  /** Creates the instances of a fan-out in chunks, beginning after those that exist. */
  async #expand({ claim, workflow, node, scope }: GatedTask): Promise<Decision[]> {
    const { evaluator, maxFanout } = this.#options
    const fan = node.fan!
    const values: { foreach?: Json; parallel?: Json } = {}
    if (fan.foreach !== undefined) values.foreach = await evaluator.render(fan.foreach, scope)
    if (fan.parallel !== undefined) values.parallel = await evaluator.render(fan.parallel, scope)
    const plan = fanOut({ ...values, reference: fan.reference }, maxFanout)
    if ("problem" in plan) return [{ kind: "fail", error: plan.problem }]
    const { total } = plan
    if (total === 0) return [{ kind: "gather", status: "success", output: { inline: [] } }]
    const run = laneKeyOf(claim)
    const lane = instanceLane(run, node)
    const limits = isGroup(node) || lane === workLane(run, node) ? limitsOf(workflow, claim.node, claim.runId) : []
    const priority = taskPriority(node, claim.run.priority)
    const chunks: Decision[] = []
    for (let offset = claim.childrenCreated; offset < total; offset += EXPAND_CHUNK) {
      const length = Math.min(EXPAND_CHUNK, total - offset)
      const items = Array.from({ length }, (_, i) => plan.itemAt(offset + i))
      const labels = await this.#labels(node, scope, items, offset)
      chunks.push({ kind: "expand", total, offset, items, ...(labels !== null && { labels }), lane, priority, limits })
    }
    return chunks
  }

  /** Returns the labels of the instances from `offset` on, or null when none of them has one. */
  async #labels(node: Node, scope: ExpressionScope, items: readonly Json[], offset: number): Promise<(string | null)[] | null> {
    const { label, fan } = node
    const labels: (string | null)[] = []
    for (const [i, item] of items.entries()) {
      const instance = { ...scope, index: offset + i, ...(fan!.foreach !== undefined && { item }) }
      labels.push(
        label === undefined ? defaultLabel(item) : labelOf(toText(await this.#options.evaluator.evaluate(label, instance))),
      )
    }
    return labels.every((each) => each === null) ? null : labels
  }

  /** Starts a task whose rules hold: reuses its cached result, lets it wait, or enqueues it. */
  async #begin({ claim, workflow, node, scope }: GatedTask): Promise<Decision> {
    const { evaluator, store } = this.#options
    if (node.cache !== undefined) {
      const key = indexKey(toText(await evaluator.evaluate(node.cache.key, scope)))
      const output = await store.getCached({ workflowId: claim.workflowId, task: node.name, key })
      const copy = output === null ? null : await copyFromCache(this.#options, claim, node.name, output)
      if (copy !== null) return { kind: "reuse", output: copy }
    }
    if (isWaitingExecutor(node.executor)) return await this.#waiting.begin(claim, node, node.executor, scope)
    const limits = limitsOf(workflow, claim.node, claim.runId)
    if (node.concurrencyKey !== undefined) {
      limits.push(keyLimit(node, claim.workflowId, toText(await evaluator.evaluate(node.concurrencyKey, scope))))
    }
    return { kind: "enqueue", lane: workLane(laneKeyOf(claim), node), limits }
  }
}

/**
 * Creates the rows inside a group in chunks. An interrupted opening continues after the rows that exist; a retry may find all of
 * them, and opens the group without new rows.
 */
const openGroup = ({ claim, workflow }: GatedTask): Decision[] => {
  const run = { ...laneKeyOf(claim), priority: claim.run.priority }
  const limits = limitsOf(workflow, claim.node, claim.runId)
  const chunks = innerRows(workflow, claim.node, run, EXPAND_CHUNK)
  const total = chunks.reduce((sum, rows) => sum + rows.length, 0)
  if (claim.childrenCreated === total) return [{ kind: "open_group", total, offset: total, rows: [], limits }]
  const decisions: Decision[] = []
  let offset = 0
  for (const rows of chunks) {
    if (offset >= claim.childrenCreated) decisions.push({ kind: "open_group", total, offset, rows, limits })
    offset += rows.length
  }
  return decisions
}

const isTruthy = (value: Json): boolean => value !== false && value !== null && value !== 0 && value !== ""

const laneKeyOf = ({ runId, run }: TaskClaim): RunLaneKey => ({ id: runId, private: run.private, rootRunId: run.rootRunId })

/** Names the upstream tasks because of which the rule is not met. */
const ruleMessage = ({ claim, workflow, node }: GatedTask, skipReason: SkipReason): string => {
  const upstream = node.upstream.map((index) => ({
    above: workflow.nodes[index]!,
    name: shortName(workflow.nodes[index]!),
    status: claim.reads.get(index)?.status ?? "pending",
  }))
  const isCause = ({ above, status }: (typeof upstream)[number]): boolean =>
    isTaskFinished(status) && countedOutcome(above, above.fan === undefined ? "task" : "fan", status, "unmet") !== "success"
  const causes = skipReason === "unmet" ? upstream.filter(isCause) : upstream
  const named = causes
    .slice(0, MAX_NAMED_UPSTREAM)
    .map(({ name, status }) =>
      `${name} ${status === "success" ? "succeeded" : `was ${status}`}`.replace("was failed", "failed"),
    )
  const more = causes.length > MAX_NAMED_UPSTREAM ? ` and ${causes.length - MAX_NAMED_UPSTREAM} more` : ""
  return `run_when ${node.rule} is not met: ${named.join(", ")}${more}`
}
