// What differs between two runs of a workflow: params, and for each task its status and how long it took. Pure.

import type { Run, RunGraph, TaskStatus } from "../../../api/types.ts"

export interface ParamRow {
  name: string
  here: unknown
  there: unknown
  same: boolean
}

export interface TaskSide {
  status: TaskStatus
  /** null: it has not both begun and ended. */
  ms: number | null
}

export interface TaskRow {
  name: string
  /** null: this run's definition has no such task. */
  here: TaskSide | null
  there: TaskSide | null
  /** How much longer it took here; null: that cannot be said. */
  slower: number | null
}

export interface Comparison {
  params: ParamRow[]
  /** What got slower first, what got faster last; what cannot be compared between. */
  tasks: TaskRow[]
  here: number | null
  there: number | null
  /** Of the longest task on either side: the length of the bars. */
  longest: number
}

const took = (from: string | null, to: string | null): number | null =>
  from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from))

export const durationOf = ({ started_at: from, finished_at: to }: { started_at: string | null; finished_at: string | null }) =>
  took(from, to)

/** The same JSON, whatever the order of names in objects. */
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
    here: durationOf(here.run),
    there: durationOf(there.run),
    longest: Math.max(0, ...tasks.flatMap((row) => [row.here?.ms ?? 0, row.there?.ms ?? 0])),
  }
}

/** The run to compare with when none is named: the last success before it, else the last before it, else any other. */
export const usualOther = (run: Run, others: readonly Run[]): Run | null => {
  const rest = others.filter((each) => each.id !== run.id)
  const before = rest.filter((each) => each.created_at < run.created_at)
  return before.find((each) => each.status === "success") ?? before[0] ?? rest[0] ?? null
}
