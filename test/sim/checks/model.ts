// The rules of the specification in their simplest form: lists and counts, without code of the engine.

import type { Json } from "../../../src/core/values/json.ts"
import type { HookEvent, RetryPolicy, RunWhen } from "../../../src/core/model/workflow.ts"
import type { RunRecord, TableReader, TaskRecord } from "../database/table-reader.ts"
import type { MemoryObjects } from "../engine/memory-objects.ts"
import type { ExpressionScope, SimNode, SimWorkflow } from "../scenario/workflows.ts"

/** A finished task as its downstream tasks count it. */
export type TaskOutcome = "success" | "failed" | "unmet" | "waived"

const FINISHED = ["success", "failed", "skipped", "cancelled"]
export const hasFinished = (task: { status: string }): boolean => FINISHED.includes(task.status)
export const isLive = (task: { status: string }): boolean => task.status === "dispatched" || task.status === "running"

/** `continue_on_error` allows the failure of a task. A failed instance fails its fan-out, whose failure is allowed. */
export const isAllowedFailure = ({ kind, status }: Pick<TaskRecord, "kind" | "status">, { node }: SimNode): boolean =>
  status === "failed" && node.continueOnError === true && (node.fan === undefined || kind === "fan")

/** The container of the task counts it as failed. */
export const isUnsuccessful = (task: Pick<TaskRecord, "kind" | "status">, simNode: SimNode): boolean =>
  (task.status === "failed" && !isAllowedFailure(task, simNode)) || task.status === "cancelled"

export const outcomeOf = (task: Pick<TaskRecord, "kind" | "status" | "skip_reason">, simNode: SimNode): TaskOutcome => {
  if (task.status === "success" || isAllowedFailure(task, simNode)) return "success"
  if (task.status === "skipped") return task.skip_reason ?? "waived"
  return "failed"
}

const isBad = (outcome: TaskOutcome): boolean => outcome === "failed" || outcome === "unmet"

/** Returns `run`, or the reason for which the task is skipped. */
export const evaluateRule = (rule: RunWhen, upstream: TaskOutcome[]): "run" | "unmet" | "waived" => {
  const holds = {
    all_success: !upstream.some(isBad),
    all_done: true,
    any_failed: upstream.some(isBad),
    all_failed: upstream.length > 0 && upstream.every(isBad),
    any_success: upstream.length === 0 || upstream.includes("success"),
    none_failed: !upstream.includes("failed"),
  }[rule]
  if (holds) return "run"
  return upstream.some(isBad) ? "unmet" : "waived"
}

/** The shortest time in ms between the end of the n-th failed attempt and the next launch. */
export const minRetryDelay = (policy: RetryPolicy, failed: number): number => {
  const { baseDelayMs: base, maxDelayMs: max } = policy
  const grown = { fixed: base, linear: base * failed, exponential: base * 2 ** (failed - 1) }[policy.backoff]
  const delay = policy.backoff === "fixed" ? grown : Math.min(grown, max)
  return policy.jitter ? Math.floor(delay / 2) : delay
}

/** The hooks that a run of this status executes. */
export const hookEvents = (status: string): HookEvent[] => {
  switch (status) {
    case "success":
      return ["on_success", "on_exit"]
    case "failed":
      return ["on_failure", "on_exit"]
    case "cancelled":
      return ["on_cancel", "on_exit"]
    default:
      return []
  }
}

/** Reads the values that the tasks of a run see from the tables and the object store. */
export class Model {
  readonly #tables: TableReader
  readonly #objects: MemoryObjects
  readonly #workflowOf: (name: string) => SimWorkflow
  /** Values of finished containers, by row: every instance of a downstream fan-out reads them. */
  readonly #containerValues = new Map<number, { finishedAt: string | null; value: Json }>()

  constructor(tables: TableReader, objects: MemoryObjects, workflowOf: (name: string) => SimWorkflow) {
    this.#tables = tables
    this.#objects = objects
    this.#workflowOf = workflowOf
  }

  output(task: TaskRecord): Json {
    if (task.output_key !== null) return JSON.parse(this.#objects.text(task.output_key)) as Json
    return task.output === null ? null : (JSON.parse(task.output) as Json)
  }

  /** The value that downstream tasks read: an output, a list of the instances' values, or an object of a group's values. */
  downstreamValue(task: TaskRecord): Json {
    const cached = this.#containerValues.get(task.id)
    if (cached !== undefined && cached.finishedAt === task.finished_at) return cached.value
    const value = this.#readValue(task)
    if (task.kind !== "task" && hasFinished(task)) {
      this.#containerValues.set(task.id, { finishedAt: task.finished_at, value })
    }
    return value
  }

  #readValue(task: TaskRecord): Json {
    if (task.status === "skipped" || (task.kind === "task" && task.status !== "success")) return null
    if (task.kind === "task") return this.output(task)
    if (task.status !== "success" && task.children_created === 0) return null
    const valueOf = (child: TaskRecord): Json => (child.status === "success" ? this.downstreamValue(child) : null)
    const children = this.#tables.childrenOf(task.id)
    if (task.kind === "fan") return children.toSorted((a, b) => lastIndex(a.path) - lastIndex(b.path)).map(valueOf)
    const { nodes } = this.#workflowOf(this.#tables.runBySeq(task.run_seq).workflow)
    return Object.fromEntries(children.map((child) => [ownName(nodes[child.node]!), valueOf(child)]))
  }

  /** The rows of the upstream tasks of a task, or of an instance's fan-out. */
  upstream(workflow: SimWorkflow, run: RunRecord, simNode: SimNode, path: string): TaskRecord[] {
    return simNode.node.upstream.map((node) => {
      const row = this.#tables.task(run.seq, node, scopeOf(workflow, simNode, path))
      if (row === undefined) throw new Error(`${run.id} has no row of ${workflow.nodes[node]!.node.name}`)
      return row
    })
  }

  expressionScope(workflow: SimWorkflow, run: RunRecord, simNode: SimNode, path: string): ExpressionScope {
    const scope = scopeOf(workflow, simNode, path)
    return {
      params: JSON.parse(run.params) as ExpressionScope["params"],
      index: path === scope ? null : lastIndex(path),
      parentIndex: scope === "" ? null : lastIndex(scope),
      upstream: (name) => {
        const node = workflow.nodes.find((each) => each.node.group === simNode.node.group && ownName(each) === name)!
        const row = this.#tables.task(run.seq, node.index, scope)!
        return { status: row.status, output: this.downstreamValue(row) }
      },
    }
  }
}

export const lastIndex = (path: string): number => Number(path.split(".").at(-1))

/** The name of a task without the names of the groups around it. */
export const ownName = ({ node }: SimNode): string => node.name.split(".").at(node.hook === null ? -1 : 0)!

/** The path that a task shares with its neighbours: an index for each group with items around it. */
export const scopeOf = (workflow: SimWorkflow, { node }: SimNode, path: string): string => {
  let depth = 0
  for (let group = node.group; group !== null; group = workflow.nodes[group]!.node.group) {
    if (workflow.nodes[group]!.items !== null) depth++
  }
  return path.split(".").slice(0, depth).join(".")
}
