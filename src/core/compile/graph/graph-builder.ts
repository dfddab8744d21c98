// Numbers the tasks of a definition and compiles each to a node: the tasks of each group in order, a group before its members, hooks
// last.

import type { TaskDefinition, WorkflowDefinition } from "../../model/definition.ts"
import type { Path } from "../../model/problems.ts"
import { type EnvValue, HOOK_EVENTS, type HookEvent, type Node } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import { linkArtifacts } from "../task/artifacts.ts"
import { mergeDefaults } from "../task/defaults.ts"
import { linkTasks, type TaskDependencies } from "../context/links.ts"
import type { NameScope } from "../context/name-scope.ts"
import { taskNameProblem } from "../context/names.ts"
import { compileEnv, compileTask } from "../task/task.ts"

const MAX_GROUP_DEPTH = 8

/** `env` of a group. Its tasks inherit it. */
interface EnvLayer {
  env: NonNullable<TaskDefinition["env"]>
  path: Path
}

/** Tasks of one group, or of the top level. */
interface TaskList {
  scope: NameScope
  tasks: { [name: string]: TaskDefinition }
  path: Path
  /** Name of the group with a dot after it; empty at the top level. */
  prefix: string
  depth: number
  /** `env` of the groups around the tasks, outermost first. */
  envLayers: readonly EnvLayer[]
}

interface NumberedTask {
  name: string
  own: TaskDefinition
  index: number
  path: Path
}

export class GraphBuilder {
  readonly nodes: Node[] = []
  /** Scope of each node's name. */
  readonly scopes = new Map<number, NameScope>()
  readonly #context: CompileContext
  readonly #definition: WorkflowDefinition
  readonly #links: { scope: NameScope; tasks: TaskDependencies[] }[] = []

  constructor(context: CompileContext, definition: WorkflowDefinition) {
    this.#context = context
    this.#definition = definition
  }

  /** Fills `nodes` and `scopes`; returns the scope of the top level. */
  build(): NameScope {
    const { tasks } = this.#definition
    const scope: NameScope = { group: null, outer: null, names: new Map() }
    if (Object.keys(tasks).length === 0) this.#context.problems.add(["tasks"], "the workflow has no tasks")
    this.#buildTasks({ scope, tasks, path: ["tasks"], prefix: "", depth: 0, envLayers: [] })
    for (const link of this.#links) linkArtifacts(this.#context, this.nodes, link)
    const implied = this.#impliedDependencies()
    for (const link of this.#links) linkTasks(this.#context, this.nodes, { ...link, implied })
    for (const hook of HOOK_EVENTS) {
      this.#definition[hook]?.forEach((task, i) => this.#buildHook(scope, hook, task, i))
    }
    return scope
  }

  #buildTasks(list: TaskList): void {
    const numbered = this.#number(list)
    for (const { name, own, index, path } of numbered) {
      this.nodes[index] = compileTask(this.#context, {
        name: list.prefix + name,
        index,
        group: list.scope.group,
        hook: null,
        path,
        own,
        merged: this.#merge(own),
        scope: list.scope,
        env: this.#inheritedEnv(list.envLayers, index),
        types: this.#definition.types ?? {},
      })
    }
    const tasks = numbered.map(({ name, own, index, path }) => ({
      name,
      node: index,
      dependsOn: own.depends_on ?? [],
      ...(own.artifacts_from !== undefined && { artifactsFrom: own.artifacts_from }),
      path,
    }))
    this.#links.push({ scope: list.scope, tasks })
    for (const task of numbered) this.#buildMembers(task, list)
  }

  /**
   * Returns the tasks that `foreach`, `parallel` and `artifacts_from` of each node name: the node depends on them, or the group around it
   * that lies beside them.
   */
  #impliedDependencies(): Map<number, Set<number>> {
    const implied = new Map<number, Set<number>>()
    const add = (from: number, target: number): void => void implied.set(from, (implied.get(from) ?? new Set()).add(target))
    for (const { refs, site } of this.#context.uses) {
      if (site.fan !== true || site.node === null) continue
      for (const { root, path } of refs) {
        const name = path[0]
        const found = root === "tasks" && typeof name === "string" ? this.#besides(site.node, name) : null
        if (found === null || found.from === found.target) continue
        add(found.from, found.target)
      }
    }
    for (const [node, { artifactsFrom = [] }] of this.nodes.entries()) {
      for (const target of artifactsFrom) add(this.#groupBeside(node, target), target)
    }
    return implied
  }

  /** Looks a task up by name as a node sees it. `from`: the node, or the group around it that lies beside the task. */
  #besides(node: number, name: string): { from: number; target: number } | null {
    let from: number | null = node
    for (let scope = this.scopes.get(node) ?? null; scope !== null && from !== null; scope = scope.outer) {
      const target = scope.names.get(name)
      if (target !== undefined) return { from, target }
      from = scope.group
    }
    return null
  }

  /** Returns the node, or the group around it that lies beside `target`. */
  #groupBeside(node: number, target: number): number {
    let from = node
    while (this.nodes[from]!.group !== this.nodes[target]!.group) from = this.nodes[from]!.group!
    return from
  }

  #number({ scope, tasks, path }: TaskList): NumberedTask[] {
    const first = this.nodes.length
    return Object.entries(tasks).map(([name, own], i) => {
      const problem = taskNameProblem(name)
      if (problem !== null) this.#context.problems.addKey([...path, name], problem)
      const index = first + i
      scope.names.set(name, index)
      this.scopes.set(index, scope)
      return { name, own, index, path: [...path, name] }
    })
  }

  /** Builds the tasks inside a group; does nothing for other tasks. */
  #buildMembers({ name, own: { tasks, env }, index, path: groupPath }: NumberedTask, list: TaskList): void {
    if (tasks === undefined) return
    const { problems } = this.#context
    const path = [...groupPath, "tasks"]
    if (list.depth + 1 > MAX_GROUP_DEPTH) {
      return problems.addKey(path, `groups may be nested at most ${MAX_GROUP_DEPTH} levels deep`)
    }
    if (Object.keys(tasks).length === 0) problems.addKey(path, "the group has no tasks")
    this.#buildTasks({
      scope: { group: index, outer: list.scope, names: new Map() },
      tasks,
      path,
      prefix: `${list.prefix}${name}.`,
      depth: list.depth + 1,
      envLayers: env === undefined ? list.envLayers : [...list.envLayers, { env, path: [...groupPath, "env"] }],
    })
  }

  #buildHook(scope: NameScope, hook: HookEvent, own: TaskDefinition, i: number): void {
    const path = [hook, i]
    const { problems } = this.#context
    if (own.depends_on !== undefined) {
      problems.addKey([...path, "depends_on"], "a hook cannot have dependencies; it runs after all tasks have finished")
    }
    if (own.tasks !== undefined) {
      return problems.addKey([...path, "tasks"], "a hook cannot be a group; use the executor workflow instead")
    }
    const index = this.nodes.length
    const artifactsFrom = own.artifacts_from ?? []
    this.nodes.push(
      compileTask(this.#context, {
        name: `${hook}.${i}`,
        index,
        group: null,
        hook,
        path,
        own,
        merged: this.#merge(own),
        scope,
        env: this.#inheritedEnv([], index),
        types: this.#definition.types ?? {},
      }),
    )
    linkArtifacts(this.#context, this.nodes, {
      scope,
      tasks: [{ name: `${hook}.${i}`, node: index, dependsOn: [], artifactsFrom, path }],
    })
  }

  #merge(own: TaskDefinition): TaskDefinition {
    return mergeDefaults(own, this.#definition.defaults ?? {}, this.#context.options.profiles)
  }

  /** Compiles `env` of the workflow and of the groups around a task, for each task: its expressions see the task's own scope. */
  #inheritedEnv(layers: readonly EnvLayer[], index: number): { [name: string]: EnvValue } {
    const merged: { [name: string]: EnvValue } = {}
    for (const { env, path } of [{ env: this.#definition.env ?? {}, path: ["env"] }, ...layers]) {
      Object.assign(merged, compileEnv(this.#context, env, path, { node: index }))
    }
    return merged
  }
}
