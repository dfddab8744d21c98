// A field that a task took from `defaults` is compiled as the task's own; what is wrong with it is told at `defaults`, once.

import type { WorkflowDefinition } from "../model/definition.ts"
import { isObject } from "../model/json.ts"
import { type DefinitionProblem, type Path, pathText } from "../model/problems.ts"
import { HOOK_EVENTS } from "../model/workflow.ts"

export const moveToDefaults = (findings: readonly DefinitionProblem[], definition: WorkflowDefinition): DefinitionProblem[] => {
  const placed = findings.map((finding) => ({ ...finding, path: blamed(finding.path, definition) }))
  return [...new Map(placed.map((finding) => [`${pathText(finding.path)}\n${finding.message}`, finding])).values()]
}

const blamed = (path: Path, definition: WorkflowDefinition): Path => {
  const length = taskPathLength(path)
  const field = path.slice(length)
  if (length === 0 || field.length === 0 || definition.defaults === undefined) return path
  if (valueAt(definition, path) !== undefined || valueAt(definition.defaults, field) === undefined) return path
  return ["defaults", ...field]
}

/** How much of the path leads to a task: `tasks.a`, `tasks.a.tasks.b`, `on_exit.0`; 0 when none does. */
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
