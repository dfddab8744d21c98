// Repairs a definition whose shape has problems, so that the rest of it can be compiled and its other problems are in the same report.
// Removes what is wrong; renames a misspelt field to the suggested one.

import type { WorkflowDefinition } from "../core/model/definition.ts"
import { isObject } from "../core/values/json.ts"
import { type DefinitionProblem, type Path, pathText } from "../core/model/problems.ts"
import { problemsOfIssues } from "./schema-issues.ts"
import { workflowSchema } from "./workflow-schema.ts"

const MAX_PASSES = 3

export interface RecoveredDefinition {
  definition: WorkflowDefinition
  /** Paths of the tasks that lost a field. */
  incomplete: Set<string>
}

/** Returns null when too little is left. */
export const recoverDefinition = (value: unknown, problems: readonly DefinitionProblem[]): RecoveredDefinition | null => {
  if (!isObject(value) || !isObject(value["tasks"])) return null
  const copy = structuredClone(value)
  const incomplete = new Set<string>()
  let remaining = problems
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    // When removing a value was not enough, its parent is removed.
    removeAll(
      copy,
      remaining.map(({ path, suggestion, key }) => ({
        path: pass === 0 ? path : path.slice(0, -1),
        rename: key === true ? suggestion : undefined,
      })),
    )
    for (const { path } of remaining) {
      const task = enclosingTask(path)
      if (task !== null) incomplete.add(pathText(task))
    }
    if (typeof copy["name"] !== "string") copy["name"] = "unnamed"
    const shape = workflowSchema.safeParse(copy, { reportInput: true })
    if (shape.success) return { definition: copy as unknown as WorkflowDefinition, incomplete }
    remaining = problemsOfIssues(shape.error.issues)
  }
  return null
}

/** Returns the path of the innermost task around a path. */
const enclosingTask = (path: Path): Path | null => {
  const at = path.lastIndexOf("tasks")
  return at === -1 || at + 1 >= path.length ? null : path.slice(0, at + 2)
}

const isTask = (path: Path): boolean => path.at(-2) === "tasks"

interface Removal {
  path: Path
  /** New name of the field; undefined: it is removed. */
  rename: string | undefined
}

/** Placeholder for an item that leaves its list after all removals, because their paths refer to the original indexes. */
const REMOVED = Symbol("removed")

const removeAll = (root: Record<string, unknown>, removals: readonly Removal[]): void => {
  const lists = new Set<unknown[]>()
  for (const { path, rename } of removals) {
    const last = path.at(-1)
    const parent = valueAt(root, path.slice(0, -1))
    if (last === undefined) continue
    if (Array.isArray(parent)) {
      if (Number(last) < parent.length) parent[Number(last)] = REMOVED
      lists.add(parent)
    } else if (isObject(parent)) {
      const value = parent[String(last)]
      if (isTask(path)) parent[String(last)] = { command: "true" }
      else Reflect.deleteProperty(parent, String(last))
      if (rename !== undefined && value !== undefined && parent[rename] === undefined) parent[rename] = value
    }
  }
  for (const list of lists) list.splice(0, list.length, ...list.filter((item) => item !== REMOVED))
}

const valueAt = (root: unknown, path: Path): unknown => {
  let value = root
  for (const step of path) value = isObject(value) || Array.isArray(value) ? Reflect.get(value, step) : undefined
  return value
}
