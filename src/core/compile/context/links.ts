// Resolves the dependencies among the tasks of one scope: looks names up, sets `upstream` and `downstream`, and reports cycles.

import { detectCycle } from "../../rules/jobs/jobs.ts"
import type { Path } from "../../model/problems.ts"
import type { Node } from "../../model/workflow.ts"
import type { CompileContext } from "./context.ts"
import type { NameScope } from "./name-scope.ts"
import { quote } from "./names.ts"

export interface TaskDependencies {
  /** Name of the task in its scope. */
  name: string
  node: number
  dependsOn: readonly string[]
  artifactsFrom?: string | readonly string[]
  path: Path
}

export interface TasksOfScope {
  scope: NameScope
  tasks: readonly TaskDependencies[]
  /** Further dependencies by node. */
  implied: ReadonlyMap<number, ReadonlySet<number>>
}

export const linkTasks = (context: CompileContext, nodes: Node[], { scope, tasks, implied }: TasksOfScope): void => {
  for (const task of tasks) {
    const upstream = new Set([...resolveDependencies(context, scope, task), ...(implied.get(task.node) ?? [])])
    nodes[task.node]!.upstream = [...upstream].sort((a, b) => a - b)
  }
  // `tasks` is in the order of the nodes, so every `downstream` is ascending.
  for (const { node } of tasks) for (const upstream of nodes[node]!.upstream) nodes[upstream]!.downstream.push(node)
  reportCycles(context, nodes, tasks)
}

const resolveDependencies = (context: CompileContext, { names }: NameScope, task: TaskDependencies): Set<number> => {
  const upstream = new Set<number>()
  for (const [i, name] of task.dependsOn.entries()) {
    const path = [...task.path, "depends_on", i]
    const target = names.get(name)
    if (name === task.name) context.problems.add(path, `${quote(name)} depends on itself`)
    else if (target !== undefined) upstream.add(target)
    else {
      const message = `${quote(task.name)} depends on ${quote(name)}, but there is no such task`
      context.problems.add(path, message, context.nearest(name, names.keys()))
    }
  }
  return upstream
}

/** Further cycles are not reported. */
const MAX_CYCLES = 10

const reportCycles = (context: CompileContext, nodes: readonly Node[], tasks: readonly TaskDependencies[]): void => {
  const byNode = new Map(tasks.map((task) => [String(task.node), task]))
  const edges = new Map(tasks.map((task) => [String(task.node), nodes[task.node]!.upstream.map(String)]))
  for (let count = 0; count < MAX_CYCLES; count++) {
    // An additional job that depends on all others reaches every cycle.
    const { has_cycle, cycle_path } = detectCycle("", [...edges.keys()], edges)
    if (!has_cycle) return
    const cycle = cycle_path.map((key) => byNode.get(key)!)
    const first = cycle.reduce((best, task, i) => (task.node < cycle[best]!.node ? i : best), 0)
    const rotated = [...cycle.slice(first), ...cycle.slice(0, first)]
    const names = [...rotated, rotated[0]!].map((task) => task.name).join(" -> ")
    context.problems.add([...rotated[0]!.path, "depends_on"], `the tasks form a cycle: ${names} (each depends on the next)`)
    for (const key of cycle_path) edges.delete(key)
  }
}
