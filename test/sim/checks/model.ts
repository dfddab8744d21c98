// The rules of the specification once more, in the simplest form: lists and counts, no code shared with the engine.

import type { Json } from "../../../src/core/model/json.ts"
import type { HookEvent, RetryPolicy, RunWhen } from "../../../src/core/model/workflow.ts"
import { type RunRecord, type TableReader, type TaskRecord, parseOutput } from "../database/table-reader.ts"
import type { MemoryObjects } from "../engine/memory-objects.ts"
import type { SimNode, SimWorkflow, View } from "../scenario/workflows.ts"

export type End = "success" | "failed" | "unmet" | "waived"

const ENDED = ["success", "failed", "skipped", "cancelled"]
export const hasEnded = (task: { status: string }): boolean => ENDED.includes(task.status)
export const isLive = (task: { status: string }): boolean => task.status === "dispatched" || task.status === "running"

export const endOf = (task: Pick<TaskRecord, "status" | "skip_reason">): End => {
  if (task.status === "success") return "success"
  if (task.status === "skipped") return task.skip_reason ?? "waived"
  return "failed"
}

const isBad = (end: End): boolean => end === "failed" || end === "unmet"

/** run: go on. Else what the skip hands down. */
export const ruleVerdict = (rule: RunWhen, ends: End[]): "run" | "unmet" | "waived" => {
  const met = {
    all_success: !ends.some(isBad),
    all_done: true,
    any_failed: ends.some(isBad),
    all_failed: ends.length > 0 && ends.every(isBad),
    any_success: ends.length === 0 || ends.includes("success"),
    none_failed: !ends.includes("failed"),
  }[rule]
  if (met) return "run"
  return ends.some(isBad) ? "unmet" : "waived"
}

/** The least time between the end of the n-th failed attempt and the next launch. */
export const leastDelay = (policy: RetryPolicy, failed: number): number => {
  const { baseDelayMs: base, maxDelayMs: cap } = policy
  const grown = { fixed: base, linear: base * failed, exponential: base * 2 ** (failed - 1) }[policy.backoff]
  const delay = policy.backoff === "fixed" ? grown : Math.min(grown, cap)
  return policy.jitter ? Math.floor(delay / 2) : delay
}

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

/** Reads what a run's tasks would see from the database and the object store. */
export class Model {
  readonly #tables: TableReader
  readonly #objects: MemoryObjects

  /** What ended fan-outs gave: every instance below asks for it. */
  readonly #lists = new Map<number, { finishedAt: string | null; list: Json }>()

  readonly #workflowOf: (name: string) => SimWorkflow

  constructor(tables: TableReader, objects: MemoryObjects, workflowOf: (name: string) => SimWorkflow) {
    this.#tables = tables
    this.#objects = objects
    this.#workflowOf = workflowOf
  }

  output(task: TaskRecord): Json {
    return task.output_key === null ? parseOutput(task) : (JSON.parse(this.#objects.text(task.output_key)) as Json)
  }

  /** What a task hands down: its output, or of a fan-out the list of its instances' outputs. */
  handedDown(task: TaskRecord): Json {
    const known = this.#lists.get(task.id)
    if (known !== undefined && known.finishedAt === task.finished_at) return known.list
    const value = this.#handedDown(task)
    if (task.kind !== "task" && hasEnded(task)) this.#lists.set(task.id, { finishedAt: task.finished_at, list: value })
    return value
  }

  #handedDown(task: TaskRecord): Json {
    if (task.status === "skipped" || (task.kind === "task" && task.status !== "success")) return null
    if (task.kind === "task") return this.output(task)
    if (task.status !== "success" && task.children_created === 0) return null
    const given = (child: TaskRecord): Json => (child.status === "success" ? this.handedDown(child) : null)
    const children = this.#tables.instances(task.id)
    if (task.kind === "fan") return children.toSorted((a, b) => lastIndex(a.path) - lastIndex(b.path)).map(given)
    const { nodes } = this.#workflowOf(this.#tables.runBySeq(task.run_seq).workflow)
    return Object.fromEntries(children.map((child) => [ownName(nodes[child.node]!), given(child)]))
  }

  /** The rows beside it, or beside its fan-out. */
  upstream(workflow: SimWorkflow, run: RunRecord, sim: SimNode, path: string): TaskRecord[] {
    return sim.node.upstream.map((up) => {
      const row = this.#tables.task(run.seq, up, scopeOf(workflow, sim, path))
      if (row === undefined) throw new Error(`${run.id} has no row of ${workflow.nodes[up]!.node.name}`)
      return row
    })
  }

  /** What the expressions of a task see: of an instance, with its index. */
  view(workflow: SimWorkflow, run: RunRecord, sim: SimNode, path: string): View {
    const scope = scopeOf(workflow, sim, path)
    return {
      params: JSON.parse(run.params) as View["params"],
      index: path === scope ? null : lastIndex(path),
      parentIndex: scope === "" ? null : lastIndex(scope),
      up: (name) => {
        const node = workflow.nodes.find((each) => each.node.group === sim.node.group && ownName(each) === name)!
        const row = this.#tables.task(run.seq, node.index, scope)!
        return { status: row.status, output: this.handedDown(row) }
      },
    }
  }
}

export const lastIndex = (path: string): number => Number(path.split(".").at(-1))

export const ownName = ({ node }: SimNode): string => node.name.split(".").at(node.hook === null ? -1 : 0)!

/** The path that a task shares with those beside it: an index for each group with items that it lies in. */
export const scopeOf = (workflow: SimWorkflow, { node }: SimNode, path: string): string => {
  let depth = 0
  for (let at = node.group; at !== null; at = workflow.nodes[at]!.node.group) if (workflow.nodes[at]!.items !== null) depth++
  return path.split(".").slice(0, depth).join(".")
}
