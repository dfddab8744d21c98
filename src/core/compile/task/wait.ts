// Compiles the fields of a task that waits until a condition holds (`executor: wait`).

import { toText } from "../../expressions/expressions.ts"
import type { TaskDefinition } from "../../model/definition.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import type { Path } from "../../model/problems.ts"
import { parseDuration } from "../../values/quantities.ts"
import type { CompiledWorkflow, Node } from "../../model/workflow.ts"
import { nodePath } from "../../model/node-path.ts"
import type { CompileContext, ExpressionSite } from "../context/context.ts"
import { compileDuration } from "../context/duration.ts"
import { TARGET_OF_OPTION, WAIT_TARGETS } from "./executors.ts"
import { quote } from "../context/names.ts"
import { sqlExpressionProblem } from "../code/sql-text.ts"
import { splitText } from "../code/templates.ts"
import type { TaskSource } from "./task.ts"

const DEFAULT_EVERY_MS = 30_000
/** Shorter intervals would keep a server busy with checks. */
const MIN_EVERY_MS = 100

const INSTANT_HINT = "must be an instant such as 2026-01-31T10:00:00Z, or an expression such as ${{ run.logical_date }}"

export const compileWait = (
  context: CompileContext,
  { merged, path }: TaskSource,
  site: ExpressionSite,
): Pick<Node, "wait" | "softFail"> => {
  checkOptions(context, merged, path)
  if (merged.sql !== undefined) checkSql(context, merged.sql, [...path, "sql"])
  const until =
    merged.until === undefined || merged.url === undefined
      ? undefined
      : (context.expression(merged.until, [...path, "until"], { ...site, response: true }) ?? undefined)
  return {
    wait: omitUndefined({ everyMs: compileEvery(context, merged.every, [...path, "every"]), until }),
    ...(merged.soft_fail === true && { softFail: true as const }),
  }
}

const compileEvery = (context: CompileContext, every: TaskDefinition["every"], path: Path): number => {
  const ms = parseDuration(every)
  if (ms !== null && ms > 0 && ms < MIN_EVERY_MS) context.problems.add(path, `must be at least ${MIN_EVERY_MS} ms`)
  return compileDuration(context, every, path) ?? DEFAULT_EVERY_MS
}

/** Reports options that belong to another target than that of the task. */
const checkOptions = (context: CompileContext, merged: TaskDefinition, path: Path): void => {
  for (const [field, target] of Object.entries(TARGET_OF_OPTION) as [keyof typeof TARGET_OF_OPTION, string][]) {
    if (merged[field] === undefined || merged[target as keyof TaskDefinition] !== undefined) continue
    context.problems.addKey([...path, field], `${field} belongs to a wait with ${target}`)
  }
  const { logical_date: date } = merged
  if (date !== undefined && !date.includes("${{") && Number.isNaN(Date.parse(date))) {
    context.problems.add([...path, "logical_date"], INSTANT_HINT)
  }
}

/** Expressions become parameters of the query, which can stand for values only. */
const checkSql = (context: CompileContext, sql: string, path: Path): void => {
  const problem = sqlExpressionProblem(splitText(sql).parts)
  if (problem !== null) context.problems.add(path, problem)
}

/** Returns why the targets of a `wait` task are wrong; null when it has exactly one. */
export const waitTargetProblem = (merged: TaskDefinition): string | null => {
  const targets = WAIT_TARGETS.filter((target) => merged[target] !== undefined)
  if (targets.length === 1) return null
  const all = `one of ${WAIT_TARGETS.join(", ")}`
  return targets.length === 0
    ? `the executor "wait" needs ${all}`
    : `has ${targets.join(" and ")}, but a wait has only ${all}; write one task for each condition`
}

/** Reports tasks that wait for the latest run of their own workflow, which is the run that they belong to. */
export const checkOwnWorkflow = (context: CompileContext, { name, nodes }: CompiledWorkflow): void => {
  for (const node of nodes) {
    const { workflow, logical_date: date } = node.fields
    if (node.executor !== "wait" || workflow === undefined || date !== undefined) continue
    if (!("lit" in workflow) || toText(workflow.lit) !== name) continue
    const message = `waits for the latest run of ${quote(name)}, which is its own run; add the logical_date of an earlier one`
    context.problems.add([...nodePath(node), "workflow"], message)
  }
}
