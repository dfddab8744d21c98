// Compares two runs of a workflow: params, and status and duration of each task. Pure.

import type { Run, RunGraph, TaskStatus } from "../../../api/types.ts"
import { runDuration, type RunTimes } from "../../../run/duration.ts"

export interface ParamRow {
  name: string
  here: unknown
  there: unknown
  same: boolean
}

export interface TaskSide {
  status: TaskStatus
  /** null if it has not started or not finished. */
  ms: number | null
}

export interface TaskRow {
  name: string
  /** null if this run's definition has no such task. */
  here: TaskSide | null
  there: TaskSide | null
  /** Difference of the durations; null if unknown. */
  slower: number | null
}

export interface Comparison {
  params: ParamRow[]
  /** Sorted by difference: slower tasks first, faster ones last, unknown ones in between. */
  tasks: TaskRow[]
  here: number | null
  there: number | null
  /** Duration of the longest task on either side, which scales the bars. */
  longest: number
}

const took = (from: string | null, to: string | null): number | null =>
  from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from))

const durationOf = ({ started_at: from, finished_at: to }: { started_at: string | null; finished_at: string | null }) =>
  took(from, to)

/** Returns null until the run has finished. */
export const durationOfRun = (run: RunTimes): number | null => (run.finished_at === null ? null : runDuration(run, 0))

/** Compares JSON values, ignoring the order of object fields. */
export const sameJson = (a: unknown, b: unknown): boolean => ordered(a) === ordered(b)

const ordered = (value: unknown): string =>
  JSON.stringify(value, (_name, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  ) ?? "undefined"

const paramRows = (here: Run["params"], there: Run["params"]): ParamRow[] =>
  [...new Set([...Object.keys(here), ...Object.keys(there)])].map((name) => ({
    name,
    here: here[name],
    there: there[name],
    same: sameJson(here[name], there[name]),
  }))

const sidesOf = (graph: RunGraph): Map<string, TaskSide> =>
  new Map(graph.tasks.map((task) => [task.name, { status: task.status, ms: durationOf(task) }]))

export const compareRuns = (here: { run: Run; graph: RunGraph }, there: { run: Run; graph: RunGraph }): Comparison => {
  const [mine, theirs] = [sidesOf(here.graph), sidesOf(there.graph)]
  const tasks = [...new Set([...mine.keys(), ...theirs.keys()])].map((name): TaskRow => {
    const [a, b] = [mine.get(name) ?? null, theirs.get(name) ?? null]
    const known = a !== null && b !== null && a.ms !== null && b.ms !== null
    return { name, here: a, there: b, slower: known ? a.ms! - b.ms! : null }
  })
  return {
    params: paramRows(here.run.params, there.run.params),
    tasks: tasks.toSorted((a, b) => (b.slower ?? 0) - (a.slower ?? 0)),
    here: durationOfRun(here.run),
    there: durationOfRun(there.run),
    longest: Math.max(0, ...tasks.flatMap((row) => [row.here?.ms ?? 0, row.there?.ms ?? 0])),
  }
}

/** Returns the default run to compare with: the last success before it, else the last run before it, else any other. */
export const usualOther = (run: Run, others: readonly Run[]): Run | null => {
  const rest = others.filter((each) => each.id !== run.id)
  const before = rest.filter((each) => each.created_at < run.created_at)
  return before.find((each) => each.status === "success") ?? before[0] ?? rest[0] ?? null
}
