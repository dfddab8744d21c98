// Alters a change whose attempt was asked to stop, or whose row lies in a group that has passed its timeout. Neither is tried
// again, whatever its holder reports. Both stores call this after they have locked or read the row, before they apply the change.

import type { Change } from "../../model/change.ts"
import { JOB_CANCELLED, timedOut } from "../messages.ts"

type Of<Kind extends Change["kind"]> = Extract<Change, { kind: Kind }>

/** Returns the cancel that replaces a change. `error` is stored with it. */
const cancelled = (change: Of<"finish" | "retry" | "wait" | "release">, nowMs: number, error?: string): Of<"finish"> => {
  const { row, attemptId } = change
  const startedAt = change.kind === "wait" ? (change.startedAt ?? null) : null
  const result = change.kind === "finish" || change.kind === "retry" ? change.result : { startedAt, finishedAt: nowMs }
  const state = { state: "cancelled", ...(error !== undefined && { error }) } as const
  return { row, attemptId, kind: "finish", status: "cancelled", result: { ...result, ...state } }
}

/** Returns the change to apply to a job's row. `stopRequested`: somebody cancelled or deleted the job during this attempt. */
export const amendJobChange = <C extends Change>(change: C, stopRequested: boolean, nowMs: number): C | Of<"finish"> => {
  switch (change.kind) {
    case "finish":
      return change.status === "cancelled" ? cancelled(change, nowMs, JOB_CANCELLED) : change
    case "retry":
    case "release":
      return stopRequested ? cancelled(change, nowMs, JOB_CANCELLED) : change
    default:
      return change
  }
}

export interface OverdueRow {
  /** The row is the group that has passed its timeout. false: it lies inside one. */
  isOverdue: boolean
  /** Timeout of the row's own node, or null. */
  timeoutMs: number | null
  /** The row has an attempt that uses slots: it is neither claimed by the gate nor waiting. */
  usesSlots: boolean
}

export interface AmendedChange<C> {
  change: C | Of<"finish" | "gather">
  /** The change leaves an unfinished row inside the group: the store must cancel it in the same transaction. */
  leavesOpenRow: boolean
}

/** Returns the change to apply to a row that is, or lies in, a group that has passed its timeout. */
export const amendOverdueChange = <C extends Change>(change: C, row: OverdueRow, nowMs: number): AmendedChange<C> => {
  switch (change.kind) {
    case "gather":
      return { change: amendGather(change, row), leavesOpenRow: false }
    case "retry":
      return { change: cancelled(change, nowMs), leavesOpenRow: false }
    case "wait":
    case "release":
      return row.usesSlots ? { change: cancelled(change, nowMs), leavesOpenRow: false } : { change, leavesOpenRow: true }
    case "requeue":
    case "enqueue":
    case "expand":
    case "open_group":
      return { change, leavesOpenRow: true }
    case "started":
    case "progress":
    case "finish":
    case "skip":
    case "fail":
    case "reuse":
      return { change, leavesOpenRow: false }
    default:
      return change satisfies never
  }
}

/** Makes an overdue group fail with its timeout, and cancels a container inside it. A success stands. */
const amendGather = (change: Of<"gather">, { isOverdue, timeoutMs }: OverdueRow): Of<"gather"> => {
  if (change.status !== "failed") return change
  const { error: _, ...rest } = change
  return isOverdue ? { ...rest, error: timedOut(timeoutMs ?? undefined) } : { ...rest, status: "cancelled" }
}
