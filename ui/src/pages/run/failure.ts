// Finds the cause of a failure in the state of a run. Pure.

import type { Instance, RunState } from "../../run/state.ts"
import { stripAnsi } from "../../logs/ansi.ts"

export interface Failure {
  /** The instance that failed first. */
  first: Instance
  /** Number of failed instances, this one included. */
  count: number
}

/** Returns null if no instance failed: the run timed out, or a task failed before it had an instance. */
export const failureOf = (state: RunState): Failure | null => {
  const failed = state.nodes.filter(({ hook }) => !hook).flatMap(({ instances }) => [...instances.values()].filter(isFailed))
  const at = ({ finishedAt }: Instance): number => finishedAt ?? Infinity
  const first = failed.reduce<Instance | null>((found, each) => (found === null || at(each) < at(found) ? each : found), null)
  return first === null ? null : { first, count: failed.length }
}

const isFailed = ({ status }: Instance): boolean => status === "failed"

/** Returns the last lines of a part of a log, without terminal codes and empty lines at the end. */
export const lastLines = (text: string, count: number): string[] =>
  text
    .trimEnd()
    .split("\n")
    .slice(-count)
    .map((line) => stripAnsi(line))
    .filter((line, i, lines) => line !== "" || (i > 0 && i < lines.length - 1))
