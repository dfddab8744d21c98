// Compiles `artifacts` and `artifacts_from`: the files that a task stores, and the tasks whose files it gets.

import { artifactPatternProblem } from "../../model/artifacts.ts"
import type { TaskDefinition } from "../../model/definition.ts"
import type { Path } from "../../model/problems.ts"
import { isGroup } from "../../model/task-path.ts"
import { EXEC_EXECUTORS, type Node } from "../../model/workflow.ts"
import type { CompileContext, ExpressionSite } from "../context/context.ts"
import type { ExecutorRule } from "./executors.ts"
import type { TasksOfScope } from "../context/links.ts"
import type { NameScope } from "../context/name-scope.ts"
import { quote } from "../context/names.ts"
import type { TaskSource } from "./task.ts"

export const compileArtifacts = (
  context: CompileContext,
  { merged, path }: TaskSource,
  { accepts }: ExecutorRule,
  site: ExpressionSite,
): Node["artifacts"] => {
  const { artifacts } = merged
  if (!accepts.includes("artifacts")) return undefined
  if (artifacts !== undefined || merged.artifacts_from !== undefined) checkContainer(context, merged, path)
  if (artifacts === undefined) return undefined
  const at = [...path, "artifacts"]
  for (const { text, place } of entriesOf(artifacts, at)) {
    const problem = text.includes("${{") ? null : artifactPatternProblem(text)
    if (problem !== null) context.problems.add(place, problem)
  }
  if (merged.defer === true) context.problems.add(at, "a task that may defer its work cannot store artifacts")
  if (merged.cache !== undefined)
    context.problems.add(at, "a task with a cache cannot store artifacts, which a reused success would not have")
  return context.template(artifacts, at, site)
}

/** Checks that Ork reaches the files of a container: through `ork exec`, or in the mounted working folder. */
const checkContainer = (context: CompileContext, merged: TaskDefinition, path: Path): void => {
  const { executor = "process" } = merged
  const at = [...path, merged.artifacts === undefined ? "artifacts_from" : "artifacts"]
  const runsExec = merged.kubernetes?.exec === true || merged.cloudrun?.exec === true || merged.file !== undefined
  if (EXEC_EXECUTORS.includes(executor) && !runsExec) {
    context.problems.add(at, `a container of ${executor} has artifacts only with ork exec; set ${executor}.exec to true`)
  }
  if (executor === "docker" && merged.docker?.work === false && merged.artifacts !== undefined) {
    context.problems.add(at, "the container does not mount the working folder, whose files are stored; remove docker.work")
  }
}

/** Sets `artifactsFrom` of the tasks of a scope. */
export const linkArtifacts = (
  context: CompileContext,
  nodes: readonly Node[],
  { scope, tasks }: Pick<TasksOfScope, "scope" | "tasks">,
): void => {
  for (const { name, node, artifactsFrom = [], path } of tasks) {
    const targets = new Set<number>()
    for (const { text, place } of entriesOf(artifactsFrom, [...path, "artifacts_from"])) {
      const target = lookUp(scope, text)
      const problem = target === null ? `there is no task ${quote(text)}` : sourceProblem(nodes, node, target)
      if (problem === null) targets.add(target!)
      else
        context.problems.add(
          place,
          `${quote(name)} takes artifacts from ${quote(text)}, but ${problem}`,
          near(context, scope, text, target),
        )
    }
    if (targets.size > 0) nodes[node]!.artifactsFrom = [...targets].sort((a, b) => a - b)
  }
}

const near = (context: CompileContext, { names }: NameScope, name: string, target: number | null): string | undefined =>
  target === null ? context.nearest(name, names.keys()) : undefined

const sourceProblem = (nodes: readonly Node[], node: number, target: number): string | null => {
  if (target === node) return "that is the task itself"
  const source = nodes[target]!
  if (isGroup(source)) return "that is a group; name a task"
  return source.artifacts === undefined ? "that task stores none; add artifacts to it" : null
}

/** Looks a task up by its name in a scope and in those around it. */
const lookUp = (scope: NameScope, name: string): number | null => {
  for (let each: NameScope | null = scope; each !== null; each = each.outer) {
    const found = each.names.get(name)
    if (found !== undefined) return found
  }
  return null
}

/** Returns the texts of a field that is one text or a list of them, each with its path. */
const entriesOf = (value: string | readonly string[], path: Path): { text: string; place: Path }[] =>
  typeof value === "string" ? [{ text: value, place: path }] : value.map((text, i) => ({ text, place: [...path, i] }))
