// A user's retry: which rows go again, worked out from the database before it by rules of its own, and what the database holds
// after it.

import { isDeepStrictEqual } from "node:util"
import type { RetryRequest, RetryReset } from "../../../src/core/rules/retry-plan.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import { hasEnded, lastIndex, scopeOf } from "./model.ts"
import { Violation } from "../trace.ts"
import { checkRun } from "./finished-run.ts"
import type { SimWorkflow } from "../scenario/workflows.ts"
import type { World } from "../simulation.ts"

/** again: begins anew. waits: a container some of whose children go again. below: inside of one that begins anew. */
type Fate = "again" | "waits" | "below"

export interface RetrySnapshot {
  run: RunRecord
  before: TaskRecord[]
  fates: Map<number, Fate>
}

/** The run as it ended is checked here: afterwards it is another one. null: the retry must be refused. */
export const checkRetryPlan = (world: World, runId: string, plan: RetryReset): RetrySnapshot | null => {
  const run = world.tables.run(runId)
  if (run === undefined || run.finished_at === null || run.hooks_pending > 0 || run.finished_at !== plan.endedAt) return null
  checkRun(world, run)
  const before = world.tables.tasksOf(run.seq)
  if (before.every((row) => row.hook === 1)) return { run, before, fates: new Map() }
  const planned = plan.nodes.map(({ node, path, extent }) => {
    const fate = extent === "all" ? "again" : typeof extent === "object" ? `waits for ${extent.path}` : "waits"
    return `${node}[${path}] ${fate}`
  })
  const meant = world.requestsOf(runId).map((request) => new Reading(world.workflowOf(run.workflow), before).read(request))
  const found = meant.find((reading) => isDeepStrictEqual(reading.planned(), planned.toSorted()))
  if (found !== undefined) return { run, before, fates: found.fates }
  const rules = meant.map((reading) => reading.planned().join(", ")).join(" or ")
  throw new Violation(
    "a retry runs the right tasks",
    `${world.labelOf(runId)}: the plan has ${planned.join(", ")}, not ${rules}`,
  )
}

/** One request, read against the rows of an ended run. */
class Reading {
  readonly fates = new Map<number, Fate>()
  readonly #workflow: SimWorkflow
  readonly #rows: TaskRecord[]
  readonly #byId: Map<number, TaskRecord>
  /** The one instance of a plain fan-out that goes again. */
  #alone: TaskRecord | null = null

  constructor(workflow: SimWorkflow, rows: TaskRecord[]) {
    this.#workflow = workflow
    this.#rows = rows.filter((row) => row.hook === 0)
    this.#byId = new Map(this.#rows.map((row) => [row.id, row]))
  }

  /** As a plan tells it: without the instances of plain fan-outs, which it only tells by their container. */
  planned(): string[] {
    return [...this.fates]
      .filter(([id, fate]) => fate !== "below" && !(this.#byId.get(id)!.kind === "task" && this.#isItem(this.#byId.get(id)!)))
      .map(([id, fate]) => {
        const { node, path } = this.#byId.get(id)!
        return `${node}[${path}] ${fate}${this.#alone?.parent_id === id ? ` for ${this.#alone.path}` : ""}`
      })
      .toSorted()
  }

  read(request: RetryRequest): this {
    const name = request.from ?? request.instance?.task
    if (name === undefined) {
      this.#failed(this.#rows.filter((row) => row.parent_id === null))
      return this
    }
    const { index } = this.#workflow.nodes.find(({ node }) => node.name === name)!
    const rows = this.#rows.filter((row) => row.node === index && this.#isThere(row))
    if (request.instance === undefined) for (const row of rows.filter((each) => !this.#isItem(each))) this.#start(row, "again")
    else this.#one(rows, request.instance.path)
    return this
  }

  #isItem({ node, kind }: TaskRecord): boolean {
    return this.#workflow.nodes[node]!.items !== null && kind !== "fan"
  }

  /** Not left over from an earlier round: whatever it lies in has made it. */
  #isThere(row: TaskRecord): boolean {
    const around = row.parent_id === null ? undefined : this.#byId.get(row.parent_id)
    if (around === undefined) return true
    if (around.kind === "group") return this.#isWhole(around) && this.#isThere(around)
    return lastIndex(row.path) < around.children_created && this.#isThere(around)
  }

  #isWhole(group: TaskRecord): boolean {
    const wanted = this.#workflow.nodes.filter(({ node }) => node.group === group.node).length
    return group.children_created > 0 && this.#children(group).length === wanted
  }

  #children({ id }: TaskRecord): TaskRecord[] {
    return this.#rows.filter((row) => row.parent_id === id)
  }

  #again(row: TaskRecord): void {
    this.fates.set(row.id, "again")
    const bury = (around: TaskRecord): void => {
      for (const child of this.#children(around)) {
        this.fates.set(child.id, "below")
        bury(child)
      }
    }
    bury(row)
  }

  /** Of rows side by side: those that did not succeed. */
  #failed(rows: TaskRecord[]): boolean {
    const bad = rows.filter((row) => row.status !== "success")
    for (const row of bad) {
      const { upstream } = this.#workflow.nodes[row.node]!.node
      if (bad.some(({ node }) => upstream.includes(node))) this.#again(row)
      else this.#part(row)
    }
    return bad.length > 0
  }

  #part(row: TaskRecord): void {
    const children = this.#children(row).filter((child) => this.#isThere(child))
    if (row.kind === "task" || row.children_created === 0) return this.#again(row)
    if (row.kind === "group") {
      if (!this.#isWhole(row) || !this.#failed(children)) return this.#again(row)
      this.fates.set(row.id, "waits")
      return
    }
    const bad = children.filter((child) => child.status !== "success")
    // A plan tells a plain fan-out as one that waits, also when none of its instances goes again.
    if (bad.length === 0 && row.children_created === row.children_total && children.some(({ kind }) => kind === "group"))
      return this.#again(row)
    this.fates.set(row.id, "waits")
    for (const child of bad) this.#part(child)
  }

  #one(rows: TaskRecord[], path: string): void {
    const found = rows.find((row) => row.path === path)
    if (found !== undefined && !this.#isItem(found)) return this.#start(found, "again")
    if (found !== undefined) {
      if (found.kind === "task") this.#alone = found
      this.#again(found)
      return this.#start(this.#byId.get(found.parent_id!)!, "waits")
    }
    const fan = rows.find((row) => row.kind === "fan" && row.children_created === 0 && row.path === this.#scope(row, path))
    if (fan !== undefined) this.#start(fan, "again")
  }

  #scope({ node }: TaskRecord, path: string): string {
    return scopeOf(this.#workflow, this.#workflow.nodes[node]!, path)
  }

  /** All below it begins anew; what it lies in waits, and all below that begins anew. */
  #start(row: TaskRecord, fate: "again" | "waits"): void {
    if (fate === "again") this.#again(row)
    else this.fates.set(row.id, "waits")
    const reached = new Set([row.node])
    const beside = this.#rows.filter((each) => each.parent_id === row.parent_id && each.path === row.path)
    for (let more = true; more;) {
      const next = beside.filter(
        ({ node }) => !reached.has(node) && this.#workflow.nodes[node]!.node.upstream.some((up) => reached.has(up)),
      )
      for (const each of next) {
        reached.add(each.node)
        this.#again(each)
      }
      more = next.length > 0
    }
    if (row.parent_id === null) return
    const around = this.#byId.get(row.parent_id)!
    if (!this.#isItem(around)) return this.#start(around, "waits")
    this.fates.set(around.id, "waits")
    this.#start(this.#byId.get(around.parent_id!)!, "waits")
  }
}

export const checkRetried = (world: World, { run, before, fates }: RetrySnapshot): void => {
  const after = new Map(world.tables.tasksOf(run.seq).map((row) => [row.id, row]))
  const fail = (row: TaskRecord, why: string): never => {
    throw new Violation("a retry runs the right tasks", `${world.labelOf(run.id)} node ${row.node} [${row.path}]: ${why}`)
  }
  const kept = new Set<number>()
  for (const row of before) {
    if (row.hook === 1) continue
    const now = after.get(row.id)
    const fate = fates.get(row.id)
    if (now === undefined) fail(row, "its row is gone")
    if (fate === undefined && !isDeepStrictEqual(now, row)) fail(row, "a task that is kept was changed")
    if ((fate === "again" || fate === "waits") && hasEnded(now!)) fail(row, `it is still ${now!.status}`)
    if (fate === undefined) kept.add(row.id)
    else world.witness.forget(run.id, row.node, row.path)
  }
  world.reset(run.id, kept)
}
