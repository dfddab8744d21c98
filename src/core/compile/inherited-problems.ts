// A task compiles the fields that it inherits from `defaults` like its own. A problem of such a field belongs to `defaults`, and is
// reported there once instead of for every task.

import type { WorkflowDefinition } from "../model/definition.ts"
import { isObject } from "../values/json.ts"
import { type DefinitionProblem, type Path, pathText } from "../model/problems.ts"
import { HOOK_EVENTS } from "../model/workflow.ts"

export const moveToDefaults = (problems: readonly DefinitionProblem[], definition: WorkflowDefinition): DefinitionProblem[] => {
  const moved = problems.map((problem) => ({ ...problem, path: definedAt(problem.path, definition) }))
  return [...new Map(moved.map((problem) => [`${pathText(problem.path)}\n${problem.message}`, problem])).values()]
}

/** Returns the path in `defaults` when the value at a task's path comes from there, otherwise the path itself. */
export const definedAt = (path: Path, definition: WorkflowDefinition): Path => {
  const length = taskPathLength(path)
  const field = path.slice(length)
  if (length === 0 || field.length === 0 || definition.defaults === undefined) return path
  if (valueAt(definition, path) !== undefined || valueAt(definition.defaults, field) === undefined) return path
  return ["defaults", ...field]
}

/** Returns how many steps of a path lead to a task (`tasks.a`, `tasks.a.tasks.b`, `on_exit.0`); 0 when none do. */
const taskPathLength = (path: Path): number => {
  if (HOOK_EVENTS.some((hook) => hook === path[0])) return 2
  let length = 0
  while (path[length] === "tasks" && path.length >= length + 2) length += 2
  return length
}

const valueAt = (root: unknown, path: Path): unknown => {
  let value = root
  for (const step of path) {
    if (Array.isArray(value)) value = value[Number(step)]
    else if (isObject(value) && Object.hasOwn(value, step)) value = value[step]
    else return undefined
  }
  return value
}
