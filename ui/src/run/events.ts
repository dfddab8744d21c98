// Applies events to the state of a run. Events that are older than the loaded data change nothing.

import type { OrkEvent, TaskStatus } from "../api/types.ts"
import { type Instance, isEnded, type RunNode, type RunState } from "./state.ts"

/**
 * Reports whether the run was retried, so that its state must be reloaded, and whether instances were created, whose labels are
 * unknown.
 */
export interface Applied {
  changed: boolean
  restarted: boolean
  expanded: boolean
  ended: boolean
}

const RUN_ENDS: ReadonlySet<string> = new Set(["success", "failed", "cancelled"])
const RANK: Record<TaskStatus, number> = {
  pending: 0,
  dispatched: 1,
  running: 2,
  success: 3,
  failed: 3,
  skipped: 3,
  cancelled: 3,
}

/** Applies events. `ended` is true if the run had finished before. */
export const applyEvents = (state: RunState, events: readonly OrkEvent[], ended: boolean): Applied => {
  const applied: Applied = { changed: false, restarted: false, expanded: false, ended }
  for (const event of events) {
    if (event.run_id !== state.runId) continue
    if (event.event === "run") {
      const now = RUN_ENDS.has(event.status)
      if (applied.ended && event.status === "running") applied.restarted = true
      applied.ended = now
      applied.changed = true
    } else if (event.event === "task") {
      const node = state.byName.get(event.task ?? "")
      if (node !== undefined && applyTask(state, node, event)) applied.changed = true
      if (event.total !== undefined) applied.expanded = true
    }
  }
  return applied
}

const depthOf = (path: string): number => (path === "" ? 0 : path.split(".").length)

const applyTask = (state: RunState, node: RunNode, event: OrkEvent): boolean => {
  const path = event.path ?? ""
  const status = event.status as TaskStatus
  const at = Date.parse(event.at)
  const depth = depthOf(path)
  if (event.total !== undefined && !node.isGroup) expand(node, path, event.total)
  if (node.isGroup || (node.fanOut !== null && depth === node.around)) {
    if (depth === 0) node.own = status
    if (node.isGroup && status === "running" && depth === node.around + (node.fanOut === null ? 0 : 1)) {
      for (const index of node.members) open(state.nodes[index]!, path)
    }
    if (node.around === 0) span(node, status, at)
    return true
  }
  const instance = node.instances.get(path) ?? add(node, path)
  if (isOld(instance, event, at)) return false
  change(node, instance, event, status, at)
  if (node.fanOut === null && node.around === 0) node.own = status
  span(node, status, at)
  return true
}

const isOld = (instance: Instance, event: OrkEvent, at: number): boolean => {
  const status = event.status as TaskStatus
  const attempt = event.attempt ?? 0
  if (attempt !== instance.attempt) return attempt < instance.attempt
  // An attempt that ended does not start again. Its end may have the same time as its start.
  const ended = instance.past.some((past) => past.attempt === attempt)
  if (ended) return status === "dispatched" || status === "running"
  if (RANK[status] >= RANK[instance.status] || event.available_at !== undefined) return false
  return at <= (instance.finishedAt ?? instance.startedAt ?? instance.dispatchedAt ?? 0)
}

const change = (node: RunNode, instance: Instance, event: OrkEvent, status: TaskStatus, at: number): void => {
  node.counts[instance.status] -= 1
  node.counts[status] += 1
  const attempt = event.attempt ?? instance.attempt
  const goesAgain = (status === "pending" && RANK[instance.status] > 0) || attempt > instance.attempt
  if (goesAgain) keepAttempt(instance, at)
  instance.attempt = Math.max(attempt, instance.attempt)
  instance.status = status
  instance.waiting = status === "running" && event.waiting !== undefined
  instance.availableAt = status === "pending" && event.available_at !== undefined ? Date.parse(event.available_at) : null
  if (status === "dispatched") instance.dispatchedAt = at
  if (status === "running") instance.startedAt ??= at
  instance.finishedAt = isEnded(status) ? at : null
}

/** Moves the finished attempt to the history; its exact result arrives when the run is reloaded. */
const keepAttempt = (instance: Instance, at: number): void => {
  const { attempt, dispatchedAt, startedAt, finishedAt, status } = instance
  if (attempt > 0 && (dispatchedAt !== null || startedAt !== null)) {
    const how = status === "success" || status === "cancelled" ? status : "failed"
    instance.past.push({ attempt, status: how, dispatchedAt, startedAt, finishedAt: finishedAt ?? at })
  }
  instance.dispatchedAt = null
  instance.startedAt = null
  instance.finishedAt = null
}

const span = (node: RunNode, status: TaskStatus, at: number): void => {
  if (status === "running") node.startedAt = node.startedAt === null ? at : Math.min(node.startedAt, at)
  if (isEnded(status)) node.finishedAt = Math.max(node.finishedAt ?? 0, at)
}

const add = (node: RunNode, path: string): Instance => {
  const made: Instance = {
    node: node.index,
    path,
    label: null,
    status: "pending",
    attempt: 0,
    availableAt: null,
    dispatchedAt: null,
    startedAt: null,
    finishedAt: null,
    waiting: false,
    past: [],
  }
  node.instances.set(path, made)
  node.counts.pending += 1
  return made
}

/** Handles the creation of a fan-out's instances. */
const expand = (node: RunNode, path: string, total: number): void => {
  for (let i = 0; i < total; i++) {
    const place = path === "" ? String(i) : `${path}.${i}`
    if (!node.instances.has(place)) add(node, place)
  }
}

/** Handles the opening of a group or one of its items. */
const open = (member: RunNode, path: string): void => {
  if (!member.isGroup && member.fanOut === null && !member.instances.has(path)) add(member, path)
}
