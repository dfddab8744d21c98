// Checks what every expression names: variables that are in scope there, params that are declared, tasks that exist and are
// upstream. Gives for each node the nodes that its expressions read.

import { formatPath, type Reference, EXPRESSION_VARIABLES } from "../expressions/expressions.ts"
import type { CompiledWorkflow, Node } from "../model/workflow.ts"
import type { Context, ExpressionUse } from "./context.ts"
import { quote } from "./names.ts"
import { areUpstream, type UpstreamPair } from "./upstream.ts"
import type { NameScope } from "./name-scope.ts"

const RUN_FIELDS = ["id", "workflow", "logical_date", "date", "trigger", "status", "error"]
const HOOK_ONLY = new Set(["status", "error"])
const TASK_FIELDS = ["output", "status"]

/** Adds what is wrong to the context; returns the nodes read by each node. */
export const checkReferences = (
  context: Context,
  workflow: CompiledWorkflow,
  scopes: ReadonlyMap<number, NameScope>,
  root: NameScope,
): Map<number, Set<number>> => new ReferenceChecker(context, workflow, scopes, root).check()

/** A reference to a task that exists, still to be checked for being upstream. */
interface TaskRead extends UpstreamPair {
  use: ExpressionUse
  node: number
  name: string
}

interface Misnomer {
  message: string
  suggestion?: string | undefined
}

class ReferenceChecker {
  readonly #context: Context
  readonly #workflow: CompiledWorkflow
  readonly #scopes: ReadonlyMap<number, NameScope>
  readonly #root: NameScope
  readonly #params: ReadonlySet<string>
  readonly #reads = new Map<number, Set<number>>()
  readonly #pending: TaskRead[] = []

  constructor(context: Context, workflow: CompiledWorkflow, scopes: ReadonlyMap<number, NameScope>, root: NameScope) {
    this.#context = context
    this.#workflow = workflow
    this.#scopes = scopes
    this.#root = root
    this.#params = new Set(workflow.params.map((param) => param.name))
  }

  check(): Map<number, Set<number>> {
    for (const use of this.#context.uses) {
      const told = new Set<string>()
      for (const ref of use.refs) {
        const misnomer = this.#misnomer(ref, use)
        if (misnomer === null) this.#read(ref, use)
        else if (!told.has(misnomer.message)) {
          told.add(misnomer.message)
          this.#context.problems.add(use.path, misnomer.message, misnomer.suggestion)
        }
      }
    }
    const upstream = areUpstream(this.#workflow.nodes, this.#pending)
    for (const [i, read] of this.#pending.entries()) {
      if (upstream[i] === true) this.#add(read.node, read.target)
      else this.#context.problems.add(read.use.path, this.#notUpstream(read))
    }
    return this.#reads
  }

  #node(index: number): Node {
    return this.#workflow.nodes[index]!
  }

  #scopeOf(node: number): NameScope {
    return this.#scopes.get(node) ?? this.#root
  }

  #read({ root, path }: Reference, use: ExpressionUse): void {
    const { node } = use.site
    const name = path[0]
    if (root !== "tasks" || node === null || typeof name !== "string") return
    const found = this.#lookUp(name, node)
    if (found === null) return
    if (found.from === null) this.#add(node, found.target)
    else this.#pending.push({ use, node, name, from: found.from, target: found.target })
  }

  #add(node: number, target: number): void {
    const set = this.#reads.get(node)
    if (set === undefined) this.#reads.set(node, new Set([target]))
    else set.add(target)
  }

  /** The task of that name as a node sees it: beside it, else beside a group around it. `from`: whose upstream it has to be. */
  #lookUp(name: string, node: number): { target: number; from: number | null } | null {
    // Hooks run when every task has ended.
    let from: number | null = this.#node(node).hook === null ? node : null
    for (let scope: NameScope | null = this.#scopeOf(node); scope !== null; scope = scope.outer) {
      const target = scope.names.get(name)
      if (target !== undefined) return { target, from }
      from = from === null ? null : scope.group
    }
    return null
  }

  #notUpstream({ node, from, name, target }: TaskRead): string {
    const own = quote(this.#node(node).name)
    if (target === node) return `${own} refers to its own output, which is not there before it has run`
    if (target === from) return `${own} refers to ${quote(name)}, the group that it is part of`
    if (from === node) return `${own} refers to task ${quote(name)}, which is not upstream of it; add it to depends_on`
    const group = quote(this.#node(from).name)
    return `${own} refers to task ${quote(name)}, which is not upstream of its group ${group}; add it to the group's depends_on`
  }

  #misnomer(ref: Reference, use: ExpressionUse): Misnomer | null {
    const { node } = use.site
    const first = ref.path[0]
    switch (ref.root) {
      case "params":
        if (node === null) return { message: "params are not known yet here; a schedule's params may name run.* only" }
        if (typeof first !== "string" || this.#params.has(first)) return null
        return { message: `there is no param ${quote(first)}`, suggestion: this.#context.nearest(first, this.#params) }
      case "run":
        return this.#runMisnomer(first, node !== null && this.#node(node).hook !== null)
      case "tasks":
        if (node === null) return { message: "no task has run yet here; a schedule's params may name run.* only" }
        return this.#taskMisnomer(ref, node)
      case "item":
      case "index":
        return this.#instanceMisnomer(ref.root, use)
      case "parent":
        return this.#parentMisnomer(first, node)
      default:
        return this.#unknownRoot(ref, node)
    }
  }

  #runMisnomer(field: string | number | undefined, hook: boolean): Misnomer | null {
    if (typeof field !== "string") return null
    if (!RUN_FIELDS.includes(field)) {
      return { message: `run has no field ${quote(field)}`, suggestion: this.#context.nearest(field, RUN_FIELDS) }
    }
    return HOOK_ONLY.has(field) && !hook ? { message: `run.${field} is known in hooks only: the run has not ended` } : null
  }

  #taskMisnomer({ path }: Reference, node: number): Misnomer | null {
    const [name, field] = path
    if (typeof name !== "string") return { message: 'tasks cannot be read as a whole; name one: tasks.NAME or tasks["a-b"]' }
    if (this.#lookUp(name, node) === null) {
      const beside = this.#scopeOf(node).names.keys()
      return { message: `there is no task ${quote(name)}`, suggestion: this.#context.nearest(name, beside) }
    }
    if (field === undefined || (typeof field === "string" && TASK_FIELDS.includes(field))) return null
    const suggestion = formatPath("tasks", [name, "output", ...path.slice(1)])
    return { message: `tasks.${name} has output and status only`, suggestion }
  }

  #instanceMisnomer(root: "item" | "index", use: ExpressionUse): Misnomer | null {
    if (use.site.fan === true) return { message: `${root} is not known where the instances are made` }
    const node = use.site.node === null ? null : this.#node(use.site.node)
    const known = root === "item" ? node?.fan?.foreach !== undefined : node?.fan !== undefined
    if (known) return null
    const grouped = node !== null && node.group !== null
    return {
      message: `${root} is known in a task with ${root === "item" ? "foreach" : "foreach or parallel"} only`,
      suggestion: grouped ? `parent.${root}` : undefined,
    }
  }

  #parentMisnomer(field: string | number | undefined, node: number | null): Misnomer | null {
    let group = node === null ? null : this.#node(node).group
    while (group !== null && this.#node(group).fan === undefined) group = this.#node(group).group
    if (group === null) return { message: "parent is known inside of a group with foreach or parallel only" }
    if (field === undefined || field === "index") return null
    if (field !== "item") return { message: "parent has item and index only" }
    return this.#node(group).fan!.foreach === undefined ? { message: "the group around it has no foreach, so no item" } : null
  }

  #unknownRoot({ root, path }: Reference, node: number | null): Misnomer {
    if (node !== null && this.#lookUp(root, node) !== null) {
      const below = TASK_FIELDS.some((field) => field === path[0]) ? path : ["output", ...path]
      return { message: `${quote(root)} is no variable`, suggestion: formatPath("tasks", [root, ...below]) }
    }
    return {
      message: `${quote(root)} is no variable; there are ${EXPRESSION_VARIABLES.join(", ")}. A text needs quotes; a name with "-" is written tasks["a-b"]`,
      suggestion: this.#context.nearest(root, EXPRESSION_VARIABLES),
    }
  }
}
