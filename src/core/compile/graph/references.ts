// Checks the references of all expressions: variables must be available at the site, params declared, tasks existing and upstream.
// Collects for each node the nodes that its expressions read.

import { formatPath, type Reference, EXPRESSION_VARIABLES } from "../../expressions/expressions.ts"
import type { CompiledWorkflow, Node } from "../../model/workflow.ts"
import type { CompileContext, ExpressionUse } from "../context/context.ts"
import { quote } from "../context/names.ts"
import { areUpstream, type UpstreamPair } from "./upstream.ts"
import type { NameScope } from "../context/name-scope.ts"

const RUN_FIELDS = ["id", "workflow", "logical_date", "date", "trigger", "cause", "status", "error"]
const HOOK_ONLY = new Set(["status", "error"])
const TASK_FIELDS = ["output", "status"]
/** Fields of `task` in the texts of a notification of a task. */
const NOTIFIED_TASK_FIELDS = ["name", "path", "label", "status", "attempt", "error", "started_at", "finished_at"]

const NOTIFICATION_VARIABLES = {
  run: "notifications can use params.* and run.*",
  task: "notifications of a task can use params.*, run.* and task.*",
} as const

/** Variables of other tools, and what to write instead. */
const OTHER_VARIABLES: Readonly<Record<string, string>> = {
  secrets: "give the task the secret as an environment variable, `env: { TOKEN: { secret: NAME } }`, and use $TOKEN",
  env: "in a command, write $NAME",
  inputs: "the params of a run are params.NAME",
  steps: "the output of an upstream task is tasks.NAME.output",
  needs: "the output of an upstream task is tasks.NAME.output",
  ds: "the day of the run's logical date is run.date",
  dag_run: "the run is run.id, run.logical_date and run.date; its params are params.NAME",
}

/** Adds problems to the context; returns the nodes that each node reads. */
export const checkReferences = (
  context: CompileContext,
  workflow: CompiledWorkflow,
  scopes: ReadonlyMap<number, NameScope>,
  topLevel: NameScope,
): Map<number, Set<number>> => new ReferenceChecker(context, workflow, scopes, topLevel).check()

/** A reference to an existing task, which must be upstream of `from`. */
interface TaskRead extends UpstreamPair {
  use: ExpressionUse
  node: number
  name: string
}

interface ReferenceProblem {
  message: string
  suggestion?: string | undefined
}

class ReferenceChecker {
  readonly #context: CompileContext
  readonly #workflow: CompiledWorkflow
  readonly #scopes: ReadonlyMap<number, NameScope>
  readonly #topLevel: NameScope
  readonly #params: ReadonlySet<string>
  readonly #reads = new Map<number, Set<number>>()
  readonly #pending: TaskRead[] = []

  constructor(
    context: CompileContext,
    workflow: CompiledWorkflow,
    scopes: ReadonlyMap<number, NameScope>,
    topLevel: NameScope,
  ) {
    this.#context = context
    this.#workflow = workflow
    this.#scopes = scopes
    this.#topLevel = topLevel
    this.#params = new Set(workflow.params.map((param) => param.name))
  }

  check(): Map<number, Set<number>> {
    for (const use of this.#context.uses) {
      const reported = new Set<string>()
      for (const ref of use.refs) {
        const problem = this.#problem(ref, use)
        if (problem === null) this.#addRead(ref, use)
        else if (!reported.has(problem.message)) {
          reported.add(problem.message)
          this.#context.problems.add(use.path, problem.message, problem.suggestion)
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
    return this.#scopes.get(node) ?? this.#topLevel
  }

  /** Adds a reference to a task to the reads of its node; most are checked for being upstream first. */
  #addRead({ root, path }: Reference, use: ExpressionUse): void {
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

  /**
   * Looks a task up by name as a node sees it: beside the node, else beside a group around it. The task must be upstream of `from`;
   * null for hooks, which may read every task.
   */
  #lookUp(name: string, node: number): { target: number; from: number | null } | null {
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
    if (target === node) return `${own} refers to its own output, which exists only after it has run`
    if (target === from) return `${own} refers to ${quote(name)}, the group around it, which finishes after it`
    if (from === node) return `${own} refers to task ${quote(name)}, which is not upstream of it; add it to depends_on`
    const group = quote(this.#node(from).name)
    return `${own} refers to task ${quote(name)}, which is not upstream of its group ${group}; add it to the group's depends_on`
  }

  #problem(ref: Reference, use: ExpressionUse): ReferenceProblem | null {
    const { node, notify } = use.site
    const first = ref.path[0]
    switch (ref.root) {
      case "params":
        if (node === null && notify === undefined)
          return { message: "params are not available here; the params of schedules and triggers can use run.* only" }
        if (typeof first !== "string" || this.#params.has(first)) return null
        return { message: `there is no param ${quote(first)}`, suggestion: this.#context.nearest(first, this.#params) }
      case "run":
        return this.#runProblem(first, notify !== undefined || (node !== null && this.#node(node).hook !== null))
      case "tasks":
        if (node === null)
          return {
            message: `tasks are not available here; ${notify === undefined ? "the params of schedules and triggers can use run.*" : NOTIFICATION_VARIABLES[notify]} only`,
          }
        return this.#taskProblem(ref, node)
      case "item":
      case "index":
        return this.#instanceProblem(ref.root, use)
      case "parent":
        return this.#parentProblem(first, node)
      case "task":
        return notify === "task" ? this.#notifiedTaskProblem(first) : this.#unknownRoot(ref, node)
      default:
        return ref.root === "response" && use.site.response === true ? null : this.#unknownRoot(ref, node)
    }
  }

  #runProblem(field: string | number | undefined, hook: boolean): ReferenceProblem | null {
    if (typeof field !== "string") return null
    if (!RUN_FIELDS.includes(field)) {
      return { message: `run has no field ${quote(field)}`, suggestion: this.#context.nearest(field, RUN_FIELDS) }
    }
    return HOOK_ONLY.has(field) && !hook
      ? { message: `run.${field} is available in hooks only, after the tasks have finished` }
      : null
  }

  #notifiedTaskProblem(field: string | number | undefined): ReferenceProblem | null {
    if (typeof field !== "string" || NOTIFIED_TASK_FIELDS.includes(field)) return null
    const suggestion = this.#context.nearest(field, NOTIFIED_TASK_FIELDS)
    return { message: `task has no field ${quote(field)}; its fields are ${NOTIFIED_TASK_FIELDS.join(", ")}`, suggestion }
  }

  #taskProblem({ path }: Reference, node: number): ReferenceProblem | null {
    const [name, field] = path
    if (typeof name !== "string") return { message: 'tasks must be followed by the name of a task: tasks.NAME or tasks["a-b"]' }
    if (this.#lookUp(name, node) === null) {
      const beside = this.#scopeOf(node).names.keys()
      return { message: `there is no task ${quote(name)}`, suggestion: this.#context.nearest(name, beside) }
    }
    if (field === undefined || (typeof field === "string" && TASK_FIELDS.includes(field))) return null
    const suggestion = formatPath("tasks", [name, "output", ...path.slice(1)])
    return { message: `tasks.${name} has the fields output and status only`, suggestion }
  }

  #instanceProblem(root: "item" | "index", use: ExpressionUse): ReferenceProblem | null {
    if (use.site.fan === true)
      return { message: `${root} is not available in foreach and parallel, which create the instances` }
    const node = use.site.node === null ? null : this.#node(use.site.node)
    const known = root === "item" ? node?.fan?.foreach !== undefined : node?.fan !== undefined
    if (known) return null
    const grouped = node !== null && node.group !== null
    return {
      message: `${root} is available in a task with ${root === "item" ? "foreach" : "foreach or parallel"} only`,
      suggestion: grouped ? `parent.${root}` : undefined,
    }
  }

  #parentProblem(field: string | number | undefined, node: number | null): ReferenceProblem | null {
    let group = node === null ? null : this.#node(node).group
    while (group !== null && this.#node(group).fan === undefined) group = this.#node(group).group
    if (group === null) return { message: "parent is available inside a group with foreach or parallel only" }
    if (field === undefined || field === "index") return null
    if (field !== "item") return { message: "parent has the fields item and index only" }
    return this.#node(group).fan!.foreach === undefined
      ? { message: "the group around the task has no foreach, so parent has no item" }
      : null
  }

  #unknownRoot({ root, path }: Reference, node: number | null): ReferenceProblem {
    const elsewhere = OTHER_VARIABLES[root]
    if (elsewhere !== undefined && this.#scopeOf(node ?? -1).names.get(root) === undefined) {
      return { message: `${quote(root)} is not a variable; ${elsewhere}` }
    }
    if (node !== null && this.#lookUp(root, node) !== null) {
      const below = TASK_FIELDS.some((field) => field === path[0]) ? path : ["output", ...path]
      return { message: `${quote(root)} is not a variable`, suggestion: formatPath("tasks", [root, ...below]) }
    }
    return {
      message: `${quote(root)} is not a variable; the variables are ${EXPRESSION_VARIABLES.join(", ")}. Put a text in quotes; write a name with "-" as tasks["a-b"]`,
      suggestion: this.#context.nearest(root, EXPRESSION_VARIABLES),
    }
  }
}
