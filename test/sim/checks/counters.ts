// Recounts what the database counts (upstream tasks, children, used slots, tasks of a run) from its rows.

import type { LimitRecord, OpenTask, RunRecord, TaskRecord } from "../database/table-reader.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { isInTimedOutGroup } from "./group-timeouts.ts"
import { hasFinished, isAllowedFailure, isLive, isUnsuccessful, lastIndex, outcomeOf } from "./model.ts"

export const checkCounters = (simulation: Simulation): void => {
  const runs = simulation.tables.runs()
  const rows = simulation.tables.openTasks()
  const rowsOfRun = Map.groupBy(rows, (row) => row.run_seq)
  for (const run of runs) {
    if (run.status === "pending" || (run.status !== "running" && run.hooks_pending === 0)) continue
    const own = rowsOfRun.get(run.seq) ?? []
    checkRunCounters(simulation, run, own)
    if (run.cancelling === null && run.status === "running") checkUpstreamCounters(simulation, run, own)
    const isCancelling = (row: OpenTask): boolean => run.cancelling !== null || isInTimedOutGroup(simulation, row)
    checkChildCounters(simulation, run, own, isCancelling)
  }
  checkLimits(simulation, runs, [...rows, ...simulation.tables.openJobs()])
  checkActiveRuns(simulation, runs)
}

export const checkRunCounters = (
  simulation: Simulation,
  run: RunRecord,
  rows: Pick<TaskRecord, "node" | "kind" | "hook" | "status" | "parent_id">[],
): void => {
  const { nodes } = simulation.workflowOf(run.workflow)
  const tasks = rows.filter((row) => row.kind === "task" && row.hook === 0)
  const count = (status: string): number => tasks.filter((row) => row.status === status).length
  const topLevel = rows.filter((row) => row.parent_id === null && row.hook === 0)
  const expected = {
    tasks_total: tasks.length,
    tasks_success: count("success"),
    tasks_failed: count("failed"),
    tasks_skipped: count("skipped"),
    tasks_cancelled: count("cancelled"),
    open_tasks: topLevel.filter((row) => !hasFinished(row)).length,
    failed: topLevel.filter((row) => row.status === "failed" && !isAllowedFailure(row, nodes[row.node]!)).length,
    hooks_pending: rows.filter((row) => row.hook === 1 && !hasFinished(row)).length,
  }
  for (const [name, value] of Object.entries(expected)) {
    const found = run[name as keyof RunRecord]
    if (found === value) continue
    throw new Violation("run counters are right", `${name} of ${simulation.labelOf(run.id)} is ${found}, not ${value}`)
  }
}

const checkUpstreamCounters = (simulation: Simulation, run: RunRecord, rows: OpenTask[]): void => {
  const { nodes } = simulation.workflowOf(run.workflow)
  const isInstance = (row: OpenTask): boolean => nodes[row.node]!.items !== null && row.kind !== "fan"
  const tasks = new Map(rows.filter((row) => !isInstance(row)).map((row) => [`${row.node}/${row.path}`, row]))
  for (const row of tasks.values()) {
    if (row.status !== "pending" || row.hook === 1) continue
    const { name, upstream } = nodes[row.node]!.node
    const outcomes = upstream
      .map((node) => tasks.get(`${node}/${row.path}`)!)
      .filter(hasFinished)
      .map((up) => outcomeOf(up, nodes[up.node]!))
    const count = (outcome: string): number => outcomes.filter((each) => each === outcome).length
    const expected = [upstream.length - outcomes.length, count("failed"), count("unmet"), count("waived")]
    const found = [row.upstream_pending, row.upstream_failed, row.upstream_unmet, row.upstream_waived]
    if (expected.join() === found.join()) continue
    const task = `${simulation.labelOf(run.id)}/${name}[${row.path}]`
    throw new Violation("upstream tasks are counted once", `${task} has ${found.join(" ")}, not ${expected.join(" ")}`)
  }
}

/** A container that is being cancelled waits only for the children that were created. */
const checkChildCounters = (
  simulation: Simulation,
  run: RunRecord,
  rows: OpenTask[],
  isCancelling: (row: OpenTask) => boolean,
): void => {
  const { nodes } = simulation.workflowOf(run.workflow)
  const childrenOf = Map.groupBy(
    rows.filter((row) => row.parent_id !== null),
    (row) => row.parent_id,
  )
  for (const row of rows) {
    const { kind, children_total: total, children_created: created, children_pending: pending } = row
    if (kind === "task" || total === null || hasFinished(row)) continue
    const children = (childrenOf.get(row.id) ?? []).filter((child) => kind === "group" || lastIndex(child.path) < created)
    const isCutShort = created < total && (row.status === "running" || pending === 0) && isCancelling(row)
    const expected = (isCutShort ? created : total) - children.filter(hasFinished).length
    const failed = children.filter((child) => isUnsuccessful(child, nodes[child.node]!)).length
    if (expected === pending && failed === row.children_failed) continue
    const found = `node ${row.node} [${row.path}] of ${simulation.labelOf(run.id)} has ${pending} pending, ${row.children_failed} failed`
    throw new Violation("instances are counted once", `${found}; expected ${expected}, ${failed}`)
  }
}

const limitsOf = (row: OpenTask): number[] => (row.limits === null ? [] : (JSON.parse(row.limits) as number[]))

const isReady = (row: OpenTask): boolean =>
  row.status === "pending" &&
  row.attempt_id === null &&
  row.upstream_pending === 0 &&
  row.parked === null &&
  row.available_at === null

const checkLimits = (simulation: Simulation, runs: RunRecord[], rows: OpenTask[]): void => {
  const limits = new Map(simulation.tables.limits().map((limit) => [limit.id, limit]))
  const used = new Map<number, number>()
  /** Limits that a row in the ready queue or in the gate is about to use. */
  const wanted = new Set<number>()
  for (const row of rows) {
    const isOpenGroup = row.kind === "group" && row.started_at !== null && !hasFinished(row)
    if ((isLive(row) && row.kind === "task" && row.waiting_on === null) || isOpenGroup)
      for (const id of limitsOf(row)) used.set(id, (used.get(id) ?? 0) + 1)
    const isInGate = row.kind === "group" && row.status === "pending" && row.attempt_id !== null && row.started_at === null
    if (isReady(row) || isInGate) for (const id of limitsOf(row)) wanted.add(id)
  }
  for (const limit of limits.values()) {
    const queue = queueOfLimit(limit.key)
    const expected = queue === null ? (used.get(limit.id) ?? 0) : simulation.queues.countOf(queue)
    if (limit.used !== expected) {
      throw new Violation("slots are counted once", `${describeLimit(limit)}, but ${expected} are live`)
    }
    // A user may have set the limit of a queue below what it has in flight.
    if (limit.used > limit.cap && queue === null) throw new Violation("limits hold", describeLimit(limit))
  }
  // Rows that wait for their queue may have a slot in reserve.
  if (simulation.queues.isAnyBound) return
  const paused = new Set(runs.filter((run) => run.paused === 1).map((run) => run.seq))
  for (const row of rows) {
    if (row.parked === null || row.parked <= 0 || paused.has(row.run_seq)) continue
    const limit = limits.get(row.parked)!
    if (limit.used >= limit.cap || wanted.has(limit.id)) continue
    throw new Violation("no slot stays idle", `row ${row.id} is parked under ${describeLimit(limit)} and nothing unparks it`)
  }
}

const queueOfLimit = (key: string): string | null => (key.startsWith("q:") ? key.slice(2) : null)

const describeLimit = (limit: LimitRecord): string => `${limit.key} with ${limit.used} of ${limit.cap} used`

const checkActiveRuns = (simulation: Simulation, runs: readonly RunRecord[]): void => {
  const active = new Map<string, number>()
  for (const run of runs) {
    if (run.status !== "running") continue
    active.set(run.workflow, (active.get(run.workflow) ?? 0) + 1)
  }
  for (const [name, count] of active) {
    const max = simulation.workflowOf(name).compiled.maxActiveRuns
    if (max !== undefined && count > max) throw new Violation("limits hold", `${count} runs of ${name} with ${max} allowed`)
  }
}
