// Compares what a run did with what its case expects.

import { isDeepStrictEqual } from "node:util"
import type { Json } from "../../core/values/json.ts"
import type { Path } from "../../core/model/problems.ts"
import { formatDuration, parseDuration } from "../../core/values/quantities.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { TaskState } from "../../sdk/test.ts"
import { lineDiff } from "./line-diff.ts"
import type { Expectations } from "./read-cases.ts"
import type { CaseResult } from "./run-case.ts"
import { keyOf, nodeOfKey } from "./task-keys.ts"

/** An expectation that was not met. */
export interface Difference {
  /** Path below `expect`. */
  path: Path
  /** The first line says what differs. */
  lines: string[]
}

export const checkCase = (workflow: CompiledWorkflow, expected: Expectations, result: CaseResult): Difference[] => {
  const { tasks = {}, attempts = {}, outputs = {}, errors = {} } = expected
  const rowOf = (key: string): TaskState | undefined => result.tasks.get(normalKey(workflow, key))
  return [
    ...checkStatus(expected, result),
    ...Object.entries(tasks).flatMap(([key, status]) => {
      const row = rowOf(key)
      return row?.status === status ? [] : [differs(["tasks", key], status, row?.status ?? NEVER, row?.error)]
    }),
    ...checkOrder(workflow, expected.order ?? [], result.order),
    ...Object.entries(attempts).flatMap(([key, count]) => {
      const found = attemptsOf(workflow, key, result)
      return found === count ? [] : [differs(["attempts", key], count, found)]
    }),
    ...Object.entries(outputs).flatMap(([key, output]) => checkOutput(key, output, rowOf(key)?.output ?? null)),
    ...Object.entries(errors).flatMap(([key, part]) => {
      const error = rowOf(key)?.error ?? null
      const isPart = error !== null && error.includes(part)
      return isPart ? [] : [differs(["errors", key], `an error with ${JSON.stringify(part)}`, error ?? "no error")]
    }),
    ...checkDuration(expected.duration, result.durationMs),
  ]
}

const NEVER = "not reached"

const differs = (path: Path, expected: string | number, found: string | number, error?: string | null): Difference => {
  const because = error === null || error === undefined ? "" : ` (${error})`
  return { path, lines: [`expected ${expected}, but was ${found}${because}`] }
}

const checkStatus = ({ status }: Expectations, result: CaseResult): Difference[] =>
  status === undefined || status === result.status ? [] : [differs(["status"], status, result.status, result.error)]

const checkOutput = (key: string, expected: Json, found: Json): Difference[] =>
  isDeepStrictEqual(expected, found)
    ? []
    : [{ path: ["outputs", key], lines: ["the output differs:", ...lineDiff(expected, found)] }]

/** Compares the order of the named tasks: each begins at its first attempt, a fan-out or group with that of its first task. */
const checkOrder = (workflow: CompiledWorkflow, expected: readonly string[], order: readonly string[]): Difference[] => {
  const found: string[] = []
  for (const started of order) {
    for (const key of expected) if (isWithin(workflow, started, key) && !found.includes(key)) found.push(key)
  }
  if (isDeepStrictEqual(found, expected)) return []
  return [{ path: ["order"], lines: ["the order differs:", ...lineDiff([...expected], found)] }]
}

/** Returns true for the task itself, its items and the tasks inside it; without indexes, those of all items. */
const isWithin = (workflow: CompiledWorkflow, started: string, key: string): boolean => {
  const [inner, outer] = [nodeOfKey(workflow, started)!, nodeOfKey(workflow, key)!]
  const isBelow = inner.node.name === outer.node.name || inner.node.name.startsWith(`${outer.node.name}.`)
  return isBelow && (outer.path === "" || inner.path === outer.path || inner.path.startsWith(`${outer.path}.`))
}

/** Returns the attempts of a task, or of all of its items. */
const attemptsOf = (workflow: CompiledWorkflow, key: string, { tasks }: CaseResult): number => {
  const { name } = nodeOfKey(workflow, key)!.node
  const own = [...tasks].filter(([found, row]) => row.kind === "task" && row.name === name && isWithin(workflow, found, key))
  return own.reduce((sum, [, { attempts }]) => sum + attempts, 0)
}

const checkDuration = (expected: Expectations["duration"], foundMs: number): Difference[] => {
  const wantedMs = expected === undefined ? foundMs : parseDuration(expected)!
  return wantedMs === foundMs ? [] : [differs(["duration"], formatDuration(wantedMs), formatDuration(foundMs))]
}

const normalKey = (workflow: CompiledWorkflow, key: string): string => {
  const { node, path } = nodeOfKey(workflow, key)!
  return keyOf(workflow, node.name, path)
}
