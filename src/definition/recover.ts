// When the shape of a definition has problems, what is left of it is compiled all the same, so that its other problems are
// told in the same report. Takes out what was found wrong; a misspelt field is taken for what was probably meant.

import type { WorkflowDefinition } from "../core/model/definition.ts"
import { isObject } from "../core/model/json.ts"
import { type DefinitionProblem, type Path, pathText } from "../core/model/problems.ts"
import { workflowSchema } from "./workflow-schema.ts"
import { problemsOfIssues } from "./schema-issues.ts"

const ROUNDS = 3

/** `incomplete`: paths of tasks that lost a field. null: too little is left. */
export const recoverDefinition = (
  value: unknown,
  found: readonly DefinitionProblem[],
): { definition: WorkflowDefinition; incomplete: Set<string> } | null => {
  if (!isObject(value) || !isObject(value["tasks"])) return null
  const copy = structuredClone(value)
  const incomplete = new Set<string>()
  let findings = found
  for (let round = 0; round < ROUNDS; round++) {
    const lists = new Set<unknown[]>()
    for (const { path, suggestion, key } of findings) {
      const task = taskOf(path)
      if (task !== null) incomplete.add(pathText(task))
      remove(copy, round === 0 ? path : path.slice(0, -1), key === true ? suggestion : undefined, lists)
    }
    for (const list of lists) list.splice(0, list.length, ...list.filter((item) => item !== GONE))
    if (typeof copy["name"] !== "string") copy["name"] = "unnamed"
    const shape = workflowSchema.safeParse(copy, { reportInput: true })
    if (shape.success) return { definition: copy as unknown as WorkflowDefinition, incomplete }
    findings = problemsOfIssues(shape.error.issues)
  }
  return null
}

/** The innermost task that the path is in. */
const taskOf = (path: Path): Path | null => {
  const at = path.lastIndexOf("tasks")
  return at === -1 || at + 1 >= path.length ? null : path.slice(0, at + 2)
}

const isTask = (path: Path): boolean => path.at(-2) === "tasks"

/** Stands in a list for what is to go, until all findings are done: they count on the places of the others. */
const GONE = Symbol("gone")

const remove = (root: Record<string, unknown>, path: Path, meant: string | undefined, lists: Set<unknown[]>): void => {
  let parent: unknown = root
  for (const step of path.slice(0, -1))
    parent = isObject(parent) || Array.isArray(parent) ? Reflect.get(parent, step) : undefined
  const last = path.at(-1)
  if (last === undefined) return
  if (Array.isArray(parent)) {
    if (Number(last) < parent.length) parent[Number(last)] = GONE
    lists.add(parent)
  } else if (isObject(parent)) {
    const taken = parent[String(last)]
    if (isTask(path)) parent[String(last)] = { command: "true" }
    else Reflect.deleteProperty(parent, String(last))
    if (meant !== undefined && taken !== undefined && parent[meant] === undefined) parent[meant] = taken
  }
}
