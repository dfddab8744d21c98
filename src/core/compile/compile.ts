// A definition of the right shape (definition/workflow-schema.ts saw to that) becomes a CompiledWorkflow, or everything that is wrong
// with it. Called by definition/parse.ts.

import type { NotifyDefinition, TaskDefinition, WorkflowDefinition } from "../model/definition.ts"
import type { DefinitionProblem, Path } from "../model/problems.ts"
import type { WorkerProfiles } from "../settings/worker-profiles.ts"
import { type CompiledWorkflow, type EnvValue, HOOK_EVENTS, type HookEvent, type Node } from "../model/workflow.ts"
import { moveToDefaults } from "./inherited-problems.ts"
import { type CompileOptions, Context } from "./context.ts"
import { GROUP_DEFAULTS } from "./executors.ts"
import { type Link, linkScope } from "./links.ts"
import { taskNameProblem, workflowNameProblem } from "./names.ts"
import { compileParams } from "./params.ts"
import { checkReferences } from "./references.ts"
import { checkTypes } from "./schemas.ts"
import { compileSchedules } from "./schedule.ts"
import type { NameScope } from "./name-scope.ts"
import { compileEnv, compileTask, compileDuration } from "./task.ts"

export type CompileResult = { ok: true; workflow: CompiledWorkflow } | { ok: false; findings: DefinitionProblem[] }

const MAX_GROUP_DEPTH = 8

export const compile = (definition: WorkflowDefinition, options: CompileOptions = {}): CompileResult => {
  const context = new Context(options)
  const nameProblem = workflowNameProblem(definition.name)
  if (nameProblem !== null) context.problems.add(["name"], nameProblem)
  if (definition.types !== undefined) checkTypes(context, definition.types)
  const params = compileParams(context, definition.params)
  const deadlineMs = compileDuration(context, definition.deadline, ["deadline"])
  const timeoutMs = compileDuration(context, definition.timeout, ["timeout"])

  const builder = new GraphBuilder(context, definition)
  const root = builder.build()
  const workflow: CompiledWorkflow = {
    format: 1,
    name: definition.name,
    ...(definition.description !== undefined && { description: definition.description }),
    tags: [...new Set(definition.tags ?? [])],
    params,
    schedules: compileSchedules(context, definition.schedule, params),
    ...(definition.webhook !== undefined && { webhook: definition.webhook }),
    notify: compileNotify(context, definition.notify ?? []),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(definition.concurrency !== undefined && { concurrency: definition.concurrency }),
    ...(definition.max_active_runs !== undefined && { maxActiveRuns: definition.max_active_runs }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(definition.priority !== undefined && { priority: definition.priority }),
    include: compileInclude(context, definition.include ?? []),
    nodes: builder.nodes,
  }
  const reads = checkReferences(context, workflow, builder.scopes, root)
  for (const [i, node] of workflow.nodes.entries()) {
    const read = reads.get(i)
    node.reads = read === undefined ? [...node.upstream] : [...new Set([...node.upstream, ...read])].sort((a, b) => a - b)
  }
  for (const { refs, site } of context.uses) {
    if (site.node !== null && refs.some(({ root: name }) => name === "parent")) readParent(workflow, site.node)
  }
  const findings = moveToDefaults(context.problems.list, definition)
  return findings.length === 0 ? { ok: true, workflow } : { ok: false, findings }
}

/** Where there is no such group, that was told. */
const readParent = (workflow: CompiledWorkflow, index: number): void => {
  const node = workflow.nodes[index]!
  let { group } = node
  while (group !== null && workflow.nodes[group]!.fan === undefined) ({ group } = workflow.nodes[group]!)
  if (group !== null) node.parent = group
}

const compileNotify = (context: Context, notify: NotifyDefinition[]): NotifyDefinition[] => {
  for (const [i, { webhook, slack }] of notify.entries()) {
    if (webhook === undefined && slack === undefined)
      context.problems.add(["notify", i], "tells nobody: give it webhook or slack")
    for (const [field, address] of Object.entries({ webhook, slack })) {
      if (address !== undefined && !/^https?:\/\//.test(address)) {
        context.problems.add(["notify", i, field], "must begin with http:// or https://")
      }
    }
  }
  return notify
}

const compileInclude = (context: Context, include: string[]): string[] => {
  for (const [i, pattern] of include.entries()) {
    if (pattern.startsWith("/") || pattern.split(/[\\/]/).includes("..")) {
      context.problems.add(["include", i], "must be a path below the definition's own folder")
    }
  }
  return include
}

/** Numbers the tasks: each scope in order, groups before what is in them, hooks last. */
class GraphBuilder {
  readonly nodes: Node[] = []
  /** The scope that each node stands in. */
  readonly scopes = new Map<number, NameScope>()
  readonly #context: Context
  readonly #definition: WorkflowDefinition

  constructor(context: Context, definition: WorkflowDefinition) {
    this.#context = context
    this.#definition = definition
  }

  build(): NameScope {
    const root: NameScope = { group: null, outer: null, names: new Map() }
    if (Object.keys(this.#definition.tasks).length === 0) {
      this.#context.problems.add(["tasks"], "there are no tasks")
    }
    this.#scope(root, this.#definition.tasks, ["tasks"], "", 0, null)
    for (const hook of HOOK_EVENTS) {
      this.#definition[hook]?.forEach((task, i) => this.#hook(root, hook, task, i))
    }
    return root
  }

  /** `env` of the workflow and of the groups around a task, judged anew for each: an expression there sees the task's scope. */
  #env(layers: readonly EnvLayer[] | null, index: number): { [name: string]: EnvValue } {
    const all = [{ env: this.#definition.env ?? {}, path: ["env"] }, ...(layers ?? [])]
    const merged: { [name: string]: EnvValue } = {}
    for (const { env, path } of all) Object.assign(merged, compileEnv(this.#context, env, path, { node: index }))
    return merged
  }

  #scope(
    scope: NameScope,
    tasks: { [name: string]: TaskDefinition },
    path: Path,
    prefix: string,
    depth: number,
    env: readonly EnvLayer[] | null,
  ): void {
    const entries = Object.entries(tasks)
    const first = this.nodes.length
    const placed: { name: string; own: TaskDefinition; index: number }[] = []
    for (const [name, own] of entries) {
      const problem = taskNameProblem(name)
      if (problem !== null) this.#context.problems.addKey([...path, name], problem)
      const index = first + placed.length
      placed.push({ name, own, index })
      scope.names.set(name, index)
      this.scopes.set(index, scope)
    }
    const links: Link[] = []
    for (const { name, own, index } of placed) {
      const at = [...path, name]
      const merged = this.#merged(own)
      this.nodes[index] = compileTask(this.#context, {
        name: prefix + name,
        index,
        group: scope.group,
        hook: null,
        path: at,
        own,
        merged,
        scope,
        env: this.#env(env, index),
        types: this.#definition.types ?? {},
      })
      links.push({ name, node: index, dependsOn: own.depends_on ?? [], path: at })
    }
    linkScope(this.#context, this.nodes, scope, links)
    for (const { name, own, index } of placed) {
      if (own.tasks === undefined) continue
      const at = [...path, name]
      if (depth + 1 > MAX_GROUP_DEPTH) {
        this.#context.problems.addKey([...at, "tasks"], `groups go ${MAX_GROUP_DEPTH} levels deep at most`)
        continue
      }
      if (Object.keys(own.tasks).length === 0) this.#context.problems.addKey([...at, "tasks"], "the group has no tasks")
      const inner: NameScope = { group: index, outer: scope, names: new Map() }
      const layers = own.env === undefined ? env : [...(env ?? []), { env: own.env, path: [...at, "env"] }]
      this.#scope(inner, own.tasks, [...at, "tasks"], `${prefix}${name}.`, depth + 1, layers)
    }
  }

  /** The task's own fields, then those of its profile and the defaults: whichever names the profile wins over it. */
  #merged(own: TaskDefinition): TaskDefinition {
    const { defaults = {} } = this.#definition
    const profile = profileOf(this.#context.options.profiles, own.worker ?? defaults.worker)
    return withDefaults(own, own.worker === undefined ? mergeFields(defaults, profile) : mergeFields(profile, defaults))
  }

  #hook(root: NameScope, hook: HookEvent, own: TaskDefinition, i: number): void {
    const path = [hook, i]
    if (own.depends_on !== undefined) {
      this.#context.problems.addKey([...path, "depends_on"], "hooks have no dependencies: all tasks have ended before them")
    }
    if (own.tasks !== undefined) {
      this.#context.problems.addKey([...path, "tasks"], "a hook cannot be a group; start a workflow from it instead")
      return
    }
    const index = this.nodes.length
    this.nodes.push(
      compileTask(this.#context, {
        name: `${hook}.${i}`,
        index,
        group: null,
        hook,
        path,
        own,
        merged: this.#merged(own),
        scope: root,
        env: this.#env(null, index),
        types: this.#definition.types ?? {},
      }),
    )
  }
}

interface EnvLayer {
  env: NonNullable<TaskDefinition["env"]>
  path: Path
}

const profileOf = (profiles: WorkerProfiles | undefined, name: string | undefined): Partial<TaskDefinition> =>
  name !== undefined && profiles !== undefined && Object.hasOwn(profiles, name) ? profiles[name]! : {}

const BY_NAME = ["env", "retry", "resources", "http", "docker", "kubernetes", "slurm", "cloudrun"] as const

/** The first one's fields win; maps are merged name by name. */
const mergeFields = <T extends Partial<TaskDefinition>>(own: T, base: Partial<TaskDefinition>): T => {
  const merged = { ...base, ...own }
  for (const field of BY_NAME) {
    if (base[field] !== undefined && own[field] !== undefined) {
      Object.assign(merged, { [field]: { ...base[field], ...own[field] } })
    }
  }
  return merged
}

/** The task's own fields win. A group takes what suits a group; the rest is meant for the tasks in it. */
const withDefaults = (own: TaskDefinition, defaults: Partial<TaskDefinition>): TaskDefinition => {
  const taken =
    own.tasks === undefined
      ? defaults
      : Object.fromEntries(Object.entries(defaults).filter(([field]) => GROUP_DEFAULTS.has(field)))
  const merged = mergeFields(own, taken)
  if (own.tasks !== undefined) {
    // The env of a group is that of the tasks in it.
    const { env: _, ...group } = merged
    return group
  }
  if (own.retries !== undefined && own.retry?.max_attempts === undefined && merged.retry?.max_attempts !== undefined) {
    const { max_attempts: _, ...rest } = merged.retry
    merged.retry = rest
  }
  return merged
}
