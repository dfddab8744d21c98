// Checks a user's retry of a run: works out which rows it must reset from the tables before it, by rules of its own, and compares the
// engine's plan and the tables after it.

import { isDeepStrictEqual } from "node:util"
import type { RetryRequest, RetryReset } from "../../../src/core/rules/runs/retry-plan.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import type { SimWorkflow } from "../scenario/workflows.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { checkFinishedRun } from "./finished-run.ts"
import { hasFinished, lastIndex, scopeOf } from "./model.ts"

/** `reset`: starts again. `partial`: a container of which some children start again. `inside`: in a container that starts again. */
type RetryEffect = "reset" | "partial" | "inside"

export interface RetrySnapshot {
  run: RunRecord
  before: TaskRecord[]
  effects: Map<number, RetryEffect>
}

/** Checks the closed run, since the retry changes it, and the plan. Returns null when the store must reject the retry. */
export const checkRetryPlan = (simulation: Simulation, runId: string, plan: RetryReset): RetrySnapshot | null => {
  const run = simulation.tables.run(runId)
  if (run === undefined || run.finished_at === null || run.hooks_pending > 0 || run.finished_at !== plan.endedAt) return null
  checkFinishedRun(simulation, run)
  const before = simulation.tables.tasksOf(run.seq)
  if (before.every((row) => row.hook === 1)) return { run, before, effects: new Map() }
  const planned = plan.rows.map(({ node, path, extent }) => {
    const effect = extent === "all" ? "reset" : typeof extent === "object" ? `partial, for ${extent.path}` : "partial"
    return `${node}[${path}] ${effect}`
  })
  const workflow = simulation.workflowOf(run.workflow)
  const expected = simulation.retryRequests(runId).map((request) => new ExpectedRetry(workflow, before, request))
  const found = expected.find((retry) => isDeepStrictEqual(retry.asPlan(), planned.toSorted()))
  if (found !== undefined) return { run, before, effects: found.effects }
  const allowed = expected.map((retry) => retry.asPlan().join(", ")).join(" or ")
  const message = `${simulation.labelOf(runId)}: the plan has ${planned.join(", ")}, not ${allowed}`
  throw new Violation("a retry resets the right tasks", message)
}

/** The effect of a request on the rows of a closed run. */
class ExpectedRetry {
  readonly effects = new Map<number, RetryEffect>()
  readonly #workflow: SimWorkflow
  readonly #rows: TaskRecord[]
  readonly #byId: Map<number, TaskRecord>
  /** The one instance of a plain fan-out that the request names; null: none. */
  #namedInstance: TaskRecord | null = null

  constructor(workflow: SimWorkflow, rows: TaskRecord[], request: RetryRequest) {
    this.#workflow = workflow
    this.#rows = rows.filter((row) => row.hook === 0)
    this.#byId = new Map(this.#rows.map((row) => [row.id, row]))
    this.#apply(request)
  }

  /** The effects in the form of a plan, which names a plain fan-out, but not its instances. */
  asPlan(): string[] {
    return [...this.effects]
      .map(([id, effect]) => ({ row: this.#byId.get(id)!, effect }))
      .filter(({ row, effect }) => effect !== "inside" && !(row.kind === "task" && this.#isInstance(row)))
      .map(({ row, effect }) => {
        const only = this.#namedInstance?.parent_id === row.id ? `, for ${this.#namedInstance.path}` : ""
        return `${row.node}[${row.path}] ${effect}${only}`
      })
      .toSorted()
  }

  #apply(request: RetryRequest): void {
    const name = request.from ?? request.instance?.task
    if (name === undefined) {
      this.#resetUnsuccessful(this.#rows.filter((row) => row.parent_id === null))
      return
    }
    const { index } = this.#workflow.nodes.find(({ node }) => node.name === name)!
    const rows = this.#rows.filter((row) => row.node === index && this.#exists(row))
    if (request.instance === undefined)
      for (const row of rows.filter((each) => !this.#isInstance(each))) this.#startFrom(row, "reset")
    else this.#startFromPath(rows, request.instance.path)
  }

  #isInstance({ node, kind }: TaskRecord): boolean {
    return this.#workflow.nodes[node]!.items !== null && kind !== "fan"
  }

  /** Returns whether the containers around a row have created it, and it is not left over from an earlier generation. */
  #exists(row: TaskRecord): boolean {
    const container = row.parent_id === null ? undefined : this.#byId.get(row.parent_id)
    if (container === undefined) return true
    if (container.kind === "group") return this.#isComplete(container) && this.#exists(container)
    return lastIndex(row.path) < container.children_created && this.#exists(container)
  }

  #isComplete(group: TaskRecord): boolean {
    const expected = this.#workflow.nodes.filter(({ node }) => node.group === group.node).length
    return group.children_created > 0 && this.#childrenOf(group).length === expected
  }

  #childrenOf({ id }: TaskRecord): TaskRecord[] {
    return this.#rows.filter((row) => row.parent_id === id)
  }

  #reset(row: TaskRecord): void {
    this.effects.set(row.id, "reset")
    const markInside = (container: TaskRecord): void => {
      for (const child of this.#childrenOf(container)) {
        this.effects.set(child.id, "inside")
        markInside(child)
      }
    }
    markInside(row)
  }

  /** Resets those of some neighbouring rows that did not succeed. Returns whether there are any. */
  #resetUnsuccessful(rows: TaskRecord[]): boolean {
    const unsuccessful = rows.filter((row) => row.status !== "success")
    for (const row of unsuccessful) {
      const { upstream } = this.#workflow.nodes[row.node]!.node
      if (unsuccessful.some(({ node }) => upstream.includes(node))) this.#reset(row)
      else this.#resetPart(row)
    }
    return unsuccessful.length > 0
  }

  /** Resets the unsuccessful children of a container; a task, or a container without usable children, as a whole. */
  #resetPart(row: TaskRecord): void {
    const children = this.#childrenOf(row).filter((child) => this.#exists(child))
    if (row.kind === "task" || row.children_created === 0) return this.#reset(row)
    if (row.kind === "group") {
      if (!this.#isComplete(row) || !this.#resetUnsuccessful(children)) return this.#reset(row)
      this.effects.set(row.id, "partial")
      return
    }
    const unsuccessful = children.filter((child) => child.status !== "success")
    // A plan names a plain fan-out as partial even when it resets none of its instances.
    const isAllCreated = row.children_created === row.children_total
    if (unsuccessful.length === 0 && isAllCreated && children.some(({ kind }) => kind === "group")) return this.#reset(row)
    this.effects.set(row.id, "partial")
    for (const child of unsuccessful) this.#resetPart(child)
  }

  #startFromPath(rows: TaskRecord[], path: string): void {
    const found = rows.find((row) => row.path === path)
    if (found !== undefined && !this.#isInstance(found)) return this.#startFrom(found, "reset")
    if (found !== undefined) {
      if (found.kind === "task") this.#namedInstance = found
      this.#reset(found)
      return this.#startFrom(this.#byId.get(found.parent_id!)!, "partial")
    }
    const fan = rows.find((row) => row.kind === "fan" && row.children_created === 0 && row.path === this.#scopeOf(row, path))
    if (fan !== undefined) this.#startFrom(fan, "reset")
  }

  #scopeOf({ node }: TaskRecord, path: string): string {
    return scopeOf(this.#workflow, this.#workflow.nodes[node]!, path)
  }

  /** Resets a row and all rows downstream of it; the containers around it become partial, and all downstream of them is reset. */
  #startFrom(row: TaskRecord, effect: "reset" | "partial"): void {
    if (effect === "reset") this.#reset(row)
    else this.effects.set(row.id, "partial")
    const reached = new Set([row.node])
    const neighbours = this.#rows.filter((each) => each.parent_id === row.parent_id && each.path === row.path)
    for (let more = true; more;) {
      const next = neighbours.filter(
        ({ node }) => !reached.has(node) && this.#workflow.nodes[node]!.node.upstream.some((up) => reached.has(up)),
      )
      for (const each of next) {
        reached.add(each.node)
        this.#reset(each)
      }
      more = next.length > 0
    }
    if (row.parent_id === null) return
    const container = this.#byId.get(row.parent_id)!
    if (!this.#isInstance(container)) return this.#startFrom(container, "partial")
    this.effects.set(container.id, "partial")
    this.#startFrom(this.#byId.get(container.parent_id!)!, "partial")
  }
}

/** Compares the tables after a retried run has started again with the expected effects. */
export const checkRetried = (simulation: Simulation, { run, before, effects }: RetrySnapshot): void => {
  const after = new Map(simulation.tables.tasksOf(run.seq).map((row) => [row.id, row]))
  const fail = (row: TaskRecord, why: string): never => {
    const task = `${simulation.labelOf(run.id)} node ${row.node} [${row.path}]`
    throw new Violation("a retry resets the right tasks", `${task}: ${why}`)
  }
  const kept = new Set<number>()
  for (const row of before) {
    if (row.hook === 1) continue
    const now = after.get(row.id)
    const effect = effects.get(row.id)
    if (now === undefined) fail(row, "its row is gone")
    if (effect === undefined && !isDeepStrictEqual(now, row)) fail(row, "a task that is kept was changed")
    if ((effect === "reset" || effect === "partial") && hasFinished(now!)) fail(row, `it is still ${now!.status}`)
    if (effect === undefined) kept.add(row.id)
    else simulation.attemptLog.forgetTask(run.id, row.node, row.path)
  }
  simulation.noteKept(run.id, kept)
}
