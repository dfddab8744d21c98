// The database recounted: whatever it counts (edges, children, slots, tasks of a run) equals what its rows say.

import type { LimitRecord, RunRecord, OpenTask, ReadyTask } from "../database/table-reader.ts"
import type { Life } from "../engine/engine-process.ts"
import { endOf, hasEnded, isLive, lastIndex } from "./model.ts"
import { isOverdue } from "./group-timeouts.ts"
import { Violation } from "../trace.ts"
import { checkCounts } from "./finished-run.ts"
import { placeText } from "./attempt-log.ts"
import type { World } from "../simulation.ts"

export const audit = (world: World): void => {
  const runs = world.tables.runs()
  const rows = world.tables.openTasks()
  const byRun = Map.groupBy(rows, (row) => row.run_seq)
  for (const run of runs) {
    const own = byRun.get(run.seq) ?? []
    if (run.status === "pending") continue
    if (run.status !== "running" && run.hooks_pending === 0) continue
    checkCounts(world, run, own)
    const label = world.labelOf(run.id)
    if (run.cancelling === null && run.status === "running") checkEdges(world, run.workflow, label, own)
    checkChildren(label, own, (row) => run.cancelling !== null || isOverdue(world, row))
  }
  checkLimits(world, runs, rows)
  checkActive(world)
}

const checkEdges = (world: World, workflow: string, label: string, rows: OpenTask[]): void => {
  const sim = world.workflowOf(workflow)
  const isItem = (row: OpenTask): boolean => sim.nodes[row.node]!.items !== null && row.kind !== "fan"
  const places = new Map(rows.filter((row) => !isItem(row)).map((row) => [`${row.node}/${row.path}`, row]))
  for (const row of places.values()) {
    if (row.status !== "pending" || row.hook === 1) continue
    const { name, upstream } = sim.nodes[row.node]!.node
    const above = upstream.map((up) => places.get(`${up}/${row.path}`)!)
    const ends = above.filter(hasEnded).map(endOf)
    const count = (end: string): number => ends.filter((one) => one === end).length
    const wanted = [above.length - ends.length, count("failed"), count("unmet"), count("waived")]
    const found = [row.upstream_pending, row.upstream_failed, row.upstream_unmet, row.upstream_waived]
    if (wanted.join() === found.join()) continue
    throw new Violation(
      "edges are counted once",
      `${label}/${name}[${row.path}] has ${found.join(" ")}, not ${wanted.join(" ")}`,
    )
  }
}

/** A cancel waits for the children that were made, and for no others. */
const checkChildren = (label: string, rows: OpenTask[], cancelling: (row: OpenTask) => boolean): void => {
  const children = Map.groupBy(
    rows.filter((row) => row.parent_id !== null),
    (row) => row.parent_id,
  )
  for (const row of rows) {
    if (row.kind === "task" || row.children_total === null || hasEnded(row)) continue
    const own = (children.get(row.id) ?? []).filter(
      (child) => row.kind === "group" || lastIndex(child.path) < row.children_created,
    )
    const isCut =
      row.children_created < row.children_total && (row.status === "running" || row.children_pending === 0) && cancelling(row)
    const left = (isCut ? row.children_created : row.children_total) - own.filter(hasEnded).length
    const failed = own.filter((child) => child.status === "failed" || child.status === "cancelled").length
    if (left === row.children_pending && failed === row.children_failed) continue
    const told = `node ${row.node} [${row.path}] of ${label} has ${row.children_pending} left, ${row.children_failed} failed`
    throw new Violation("instances are counted once", `${told}; recounted ${left}, ${failed}`)
  }
}

const idsOf = (row: OpenTask): number[] => (row.limits === null ? [] : (JSON.parse(row.limits) as number[]))

const isReady = (row: OpenTask): boolean =>
  row.status === "pending" &&
  row.attempt_id === null &&
  row.upstream_pending === 0 &&
  row.parked === null &&
  row.available_at === null

const checkLimits = (world: World, runs: RunRecord[], rows: OpenTask[]): void => {
  const limits = new Map(world.tables.limits().map((limit) => [limit.id, limit]))
  const used = new Map<number, number>()
  const promised = new Set<number>()
  for (const row of rows) {
    const isOpen = row.kind === "group" && row.started_at !== null && !hasEnded(row)
    if ((isLive(row) && row.kind === "task" && row.waiting_on === null) || isOpen)
      for (const id of idsOf(row)) used.set(id, (used.get(id) ?? 0) + 1)
    const isJudged = row.kind === "group" && row.status === "pending" && row.attempt_id !== null && row.started_at === null
    if (isReady(row) || isJudged) for (const id of idsOf(row)) promised.add(id)
  }
  for (const limit of limits.values()) {
    const wanted = used.get(limit.id) ?? 0
    if (limit.used !== wanted) throw new Violation("slots are counted once", `${told(limit)}, but ${wanted} are live`)
    if (limit.used > limit.cap) throw new Violation("limits are kept", told(limit))
  }
  const paused = new Set(runs.filter((run) => run.paused === 1).map((run) => run.seq))
  for (const row of rows) {
    if (row.parked === null || row.parked <= 0 || paused.has(row.run_seq)) continue
    const limit = limits.get(row.parked)!
    if (limit.used >= limit.cap || promised.has(limit.id)) continue
    throw new Violation("no slot stays idle", `row ${row.id} is parked under ${told(limit)} and nothing will wake it`)
  }
}

const told = (limit: LimitRecord): string => `${limit.key} with ${limit.used} of ${limit.cap} used`

/** Runs that a user retried are let in whatever the number. */
const checkActive = (world: World): void => {
  const active = new Map<string, number>()
  for (const run of world.tables.runs()) {
    if (run.status !== "running" || world.retries(run.id) > 0) continue
    active.set(run.workflow, (active.get(run.workflow) ?? 0) + 1)
  }
  for (const [name, count] of active) {
    const max = world.workflowOf(name).compiled.maxActiveRuns
    if (max !== undefined && count > max) throw new Violation("limits are kept", `${count} runs of ${name} with ${max} allowed`)
  }
}

/** What a user cancelled is told to stop, and so is what lies in a group whose time is over. */
const checkStopped = (world: World, life: Life): void => {
  for (const attempt of world.witness.live) {
    if (attempt.incarnation !== life || attempt.stopped || attempt.sim.node.hook !== null) continue
    const row = world.tables.task(world.tables.run(attempt.runId)!.seq, attempt.sim.index, attempt.path)
    const overdue = row?.attempt_id === attempt.id && isOverdue(world, row, SLACK_MS)
    if (!world.commits.cancelled.has(attempt.runId) && !overdue) continue
    throw new Violation("what is cancelled is stopped", placeText(attempt))
  }
}

/** Another engine's turn may make a retry ready just before ours: then our own timer is about to come. */
const SLACK_MS = 2000

const isLong = (world: World, row: ReadyTask): boolean => {
  const now = world.clock.now()
  if (world.lives.filter((life) => life.alive).length === 1) return true
  const place = `${row.id}/${row.attempt}`
  const since = world.waiting.get(place) ?? now
  world.waiting.set(place, since)
  return now - since > SLACK_MS
}

/** At a point where nothing is under way: what could run, runs. */
export const checkIdle = (world: World): void => {
  if (world.wakes > 0) return
  const lives = world.lives.filter((life) => life.alive && life.started)
  const shared = world.scenario.engines.filter((engine) => engine.privateRun === null).length
  const ready = world.tables.ready()
  for (const life of lives) {
    const spec = world.scenario.engines[life.engine]!
    if (
      life.calls > 0 ||
      life.failing ||
      life.unaware ||
      life.draining ||
      (life.holder !== null && world.deadHolders.has(life.holder))
    )
      continue
    checkStopped(world, life)
    if (spec.privateRun === null && shared > 1) continue
    const own = spec.privateRun === null ? null : world.runIdOf(spec.privateRun)
    const mine = ready.filter((row) => (own === null ? row.private === 0 : row.run_id === own))
    const busy = [...world.witness.live].filter((attempt) => attempt.incarnation === life).length
    const waiting = mine.filter((row) => row.lane.endsWith("g") || busy < spec.concurrency).find((row) => isLong(world, row))
    if (waiting !== undefined) {
      const free = `${life.name} has ${spec.concurrency - busy} free slots`
      throw new Violation("no slot stays idle", `row ${waiting.id} in ${waiting.lane} is ready and ${free}`)
    }
  }
}
