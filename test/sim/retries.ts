// A user's retry: which tasks go again, worked out from the database before it, and what the database holds after it.

import { isDeepStrictEqual } from "node:util"
import type { RetryRequest, RetryReset } from "../../src/core/retry-plan.ts"
import type { BookRun, BookTask } from "./books.ts"
import { hasEnded } from "./model.ts"
import { Violation } from "./trace.ts"
import { checkRun } from "./verify.ts"
import type { World } from "./world.ts"

export interface RetrySnapshot {
  run: BookRun
  before: BookTask[]
  again: Set<number>
  /** That instance alone of its task. */
  instance: { node: number; path: string } | null
}

/** The run as it ended is checked here: afterwards it is another one. null: the retry must be refused. */
export const checkRetryPlan = (world: World, runId: string, plan: RetryReset): RetrySnapshot | null => {
  const run = world.books.run(runId)
  if (run === undefined || run.finished_at === null || run.hooks_left > 0 || run.finished_at !== plan.endedAt) return null
  checkRun(world, run)
  const before = world.books.tasksOf(run.seq)
  const planned = new Set(plan.nodes.map(({ node }) => node))
  const alone = plan.nodes.flatMap(({ scope }) => (typeof scope === "object" ? [scope.path] : []))[0]
  const meant = world.requestsOf(runId).map((request) => readRequest(world, run, before, request))
  const found = meant.find(({ again, instance }) => isDeepStrictEqual(again, planned) && instance?.path === alone)
  if (found !== undefined || before.every((row) => row.hook === 1))
    return found ?? { run, before, again: new Set(), instance: null }
  const rules = meant.map(({ again }) => [...again].join(" ")).join(" or ")
  throw new Violation(
    "a retry runs the right tasks",
    `${world.labelOf(runId)}: the plan has ${[...planned].join(" ")}, not ${rules}`,
  )
}

const readRequest = (world: World, run: BookRun, before: BookTask[], request: RetryRequest): RetrySnapshot => {
  const { nodes } = world.workflowOf(run.workflow)
  const name = request.from ?? request.instance?.task
  const top = before.filter((row) => row.parent_id === null && row.hook === 0)
  const again = new Set<number>()
  if (name === undefined) for (const row of top) if (row.status !== "success") again.add(row.node)
  if (name !== undefined) {
    again.add(nodes.findIndex((sim) => sim.node.name === name))
    for (const { index, node } of nodes) if (node.upstream.some((up) => again.has(up))) again.add(index)
  }
  const target = nodes.find((sim) => sim.node.name === request.instance?.task)
  const row = top.find(({ node }) => node === target?.index)
  const instance =
    target !== undefined && row !== undefined && row.expanded > 0 ? { node: target.index, path: request.instance!.path } : null
  return { run, before, again, instance }
}

export const checkRetried = (world: World, snapshot: RetrySnapshot): void => {
  const { run, before, again, instance } = snapshot
  const after = new Map(world.books.tasksOf(run.seq).map((row) => [row.id, row]))
  const fail = (row: BookTask, why: string): never => {
    throw new Violation("a retry runs the right tasks", `${world.labelOf(run.id)} node ${row.node} [${row.path}]: ${why}`)
  }
  for (const row of before) {
    if (row.hook === 1) continue
    const now = after.get(row.id)
    if (now === undefined) fail(row, "its row is gone")
    const kept = !again.has(row.node)
    if (kept && !isDeepStrictEqual(now, row)) fail(row, "a task that is kept was changed")
    if (!kept && row.parent_id === null && hasEnded(now!)) fail(row, `it is still ${now!.status}`)
    if (instance !== null && row.node === instance.node && row.parent_id !== null) {
      const isIt = row.path === instance.path
      if (isIt === hasEnded(now!)) fail(row, isIt ? `it is still ${now!.status}` : `it became ${now!.status}`)
    }
  }
  forgetPlaces(world, snapshot, [...after.values()])
}

/** What runs again has a new history; instances that keep their success keep their history. */
const forgetPlaces = (world: World, { run, again }: RetrySnapshot, after: BookTask[]): void => {
  const kept = new Set<number>()
  for (const node of again) {
    const container = after.find((row) => row.node === node && row.parent_id === null)
    const partial = container !== undefined && container.kind !== "task" && container.expanded > 0
    if (!partial) world.witness.forget(run.id, node, null)
    for (const row of after) {
      if (!partial || row.node !== node || row.parent_id === null) continue
      if (hasEnded(row)) kept.add(row.id)
      else world.witness.forget(run.id, node, row.path)
    }
  }
  world.reset(run.id, again, kept)
}
