// Checks what every expression names: variables that are in scope there, params that are declared, tasks that exist and are
// upstream. Gives for each node the nodes that its expressions read.

import { formatPath, type Reference, SCOPE_ROOTS } from "../expressions.ts"
import { nearest } from "../nearest.ts"
import type { CompiledWorkflow } from "../workflow.ts"
import type { Context, Use } from "./context.ts"
import { reachable, type Reach } from "./reach.ts"
import type { TaskScope } from "./scope.ts"
import { quote } from "./names.ts"

const RUN_FIELDS = ["id", "workflow", "logical_date", "date", "trigger", "status", "error"]
const HOOK_ONLY = new Set(["status", "error"])
const TASK_FIELDS = ["output", "status"]

/** A reference to a task that exists, still to be checked for being upstream. */
interface TaskRead extends Reach {
  use: Use
  name: string
}

/** Adds what is wrong to the context; returns the nodes read by each node. */
export const checkReferences = (
  context: Context,
  workflow: CompiledWorkflow,
  scopes: ReadonlyMap<number, TaskScope>,
  root: TaskScope,
): Map<number, Set<number>> => {
  const params = new Set(workflow.params.map((param) => param.name))
  const reads = new Map<number, Set<number>>()
  const pending: TaskRead[] = []

  for (const use of context.uses) {
    const told = new Set<string>()
    for (const ref of use.refs) {
      const problem = rootProblem(ref, use, workflow, params, scopes, root)
      if (problem !== null) {
        if (!told.has(problem.message)) context.findings.add(use.path, problem.message, problem.suggestion)
        told.add(problem.message)
        continue
      }
      if (ref.root !== "tasks" || use.place.node === null) continue
      const name = String(ref.path[0])
      const found = lookUp(name, use.place.node, workflow, scopes, root)
      if (found === null) continue
      const { target, from } = found
      if (from === null) addRead(reads, use.place.node, target)
      else pending.push({ use, name, from, target })
    }
  }

  const upstream = reachable(workflow.nodes, pending)
  for (const [i, { use, name, target, from }] of pending.entries()) {
    const node = use.place.node!
    if (upstream[i] === true) addRead(reads, node, target)
    else context.findings.add(use.path, notUpstream(workflow, node, from, name, target))
  }
  return reads
}

const addRead = (reads: Map<number, Set<number>>, node: number, target: number): void => {
  const set = reads.get(node)
  if (set === undefined) reads.set(node, new Set([target]))
  else set.add(target)
}

const notUpstream = (workflow: CompiledWorkflow, node: number, from: number, name: string, target: number): string => {
  const own = quote(workflow.nodes[node]!.name)
  if (target === node) return `${own} refers to its own output, which is not there before it has run`
  if (target === from) return `${own} refers to ${quote(name)}, the group that it is part of`
  if (from === node) return `${own} refers to task ${quote(name)}, which is not upstream of it; add it to depends_on`
  const group = quote(workflow.nodes[from]!.name)
  return `${own} refers to task ${quote(name)}, which is not upstream of its group ${group}; add it to the group's depends_on`
}

interface Problem {
  message: string
  suggestion?: string
}

const withSuggestion = (message: string, suggestion: string | undefined): Problem =>
  suggestion === undefined ? { message } : { message, suggestion }

const rootProblem = (
  ref: Reference,
  use: Use,
  workflow: CompiledWorkflow,
  params: ReadonlySet<string>,
  scopes: ReadonlyMap<number, TaskScope>,
  root: TaskScope,
): Problem | null => {
  const { node } = use.place
  const first = ref.path[0]
  switch (ref.root) {
    case "params":
      if (node === null) return { message: "params are not known yet here; a schedule's params may name run.* only" }
      if (typeof first !== "string" || params.has(first)) return null
      return withSuggestion(`there is no param ${quote(first)}`, nearest(first, params))
    case "run":
      return runProblem(first, node === null ? false : workflow.nodes[node]!.hook !== null)
    case "tasks":
      if (node === null) return { message: "no task has run yet here; a schedule's params may name run.* only" }
      return taskProblem(ref, node, workflow, scopes, root)
    case "item":
    case "index":
      return instanceProblem(ref.root, use, workflow)
    case "parent":
      return parentProblem(first, node, workflow)
    default: {
      const names = node === null ? [] : [...scopeOf(node, scopes, root).names.keys()]
      if (names.includes(ref.root)) {
        const below = TASK_FIELDS.some((field) => field === ref.path[0]) ? ref.path : ["output", ...ref.path]
        return {
          message: `${quote(ref.root)} is no variable`,
          suggestion: formatPath("tasks", [ref.root, ...below]),
        }
      }
      const hint = names.some((name) => name.includes("-")) ? '; a name with "-" is written tasks["a-b"]' : ""
      return withSuggestion(
        `${quote(ref.root)} is no variable; there are ${SCOPE_ROOTS.join(", ")}; a text needs quotes${hint}`,
        nearest(ref.root, SCOPE_ROOTS),
      )
    }
  }
}

const runProblem = (field: string | number | undefined, hook: boolean): Problem | null => {
  if (typeof field !== "string") return null
  if (!RUN_FIELDS.includes(field)) return withSuggestion(`run has no field ${quote(field)}`, nearest(field, RUN_FIELDS))
  return HOOK_ONLY.has(field) && !hook ? { message: `run.${field} is known in hooks only: the run has not ended` } : null
}

const scopeOf = (node: number, scopes: ReadonlyMap<number, TaskScope>, root: TaskScope): TaskScope => scopes.get(node) ?? root

const taskProblem = (
  ref: Reference,
  node: number,
  workflow: CompiledWorkflow,
  scopes: ReadonlyMap<number, TaskScope>,
  root: TaskScope,
): Problem | null => {
  const [name, field] = ref.path
  if (typeof name !== "string") return { message: 'tasks cannot be read as a whole; name one: tasks.NAME or tasks["a-b"]' }
  if (lookUp(name, node, workflow, scopes, root) === null) {
    const names = new Set<string>()
    for (let scope: TaskScope | null = scopeOf(node, scopes, root); scope !== null; scope = scope.outer) {
      for (const known of scope.names.keys()) names.add(known)
    }
    return withSuggestion(`there is no task ${quote(name)}`, nearest(name, names))
  }
  if (field === undefined || (typeof field === "string" && TASK_FIELDS.includes(field))) return null
  return {
    message: `tasks.${name} has output and status only`,
    suggestion: formatPath("tasks", [name, "output", ...ref.path.slice(1)]),
  }
}

/** The task of that name as a node sees it: beside it, else beside a group around it. `from`: whose upstream it has to be. */
const lookUp = (
  name: string,
  node: number,
  workflow: CompiledWorkflow,
  scopes: ReadonlyMap<number, TaskScope>,
  root: TaskScope,
): { target: number; from: number | null } | null => {
  let from: number | null = workflow.nodes[node]!.hook === null ? node : null
  for (let scope: TaskScope | null = scopeOf(node, scopes, root); scope !== null; scope = scope.outer) {
    const target = scope.names.get(name)
    if (target !== undefined) return { target, from }
    from = from === null ? null : scope.group
  }
  return null
}

const instanceProblem = (root: "item" | "index", use: Use, workflow: CompiledWorkflow): Problem | null => {
  const node = use.place.node === null ? undefined : workflow.nodes[use.place.node]
  if (use.place.fan === true) return { message: `${root} is not known where the instances are made` }
  const known = root === "item" ? node?.fan?.foreach !== undefined : node?.fan !== undefined
  if (known) return null
  const grouped = node !== undefined && node.group !== null
  const need = root === "item" ? "foreach" : "foreach or parallel"
  return {
    message: `${root} is known in a task with ${need} only`,
    ...(grouped && { suggestion: `parent.${root}` }),
  }
}

const parentProblem = (field: string | number | undefined, node: number | null, workflow: CompiledWorkflow): Problem | null => {
  let group = node === null ? null : workflow.nodes[node]!.group
  while (group !== null && workflow.nodes[group]!.fan === undefined) group = workflow.nodes[group]!.group
  if (group === null) return { message: "parent is known inside of a group with foreach or parallel only" }
  if (field === undefined || field === "index") return null
  if (field !== "item") return { message: "parent has item and index only" }
  return workflow.nodes[group]!.fan!.foreach === undefined
    ? { message: "the group around it has no foreach, so no item" }
    : null
}
