// Compiles a definition, whose shape definition/workflow-schema.ts has checked, to a CompiledWorkflow, or reports all of its problems.

import type { WorkflowDefinition } from "../model/definition.ts"
import { omitUndefined } from "../values/omit-undefined.ts"
import type { DefinitionProblem } from "../model/problems.ts"
import type { CompiledWorkflow } from "../model/workflow.ts"
import type { CommandFile } from "./code/command-files.ts"
import { CompileContext, type CompileOptions } from "./context/context.ts"
import { compileDuration } from "./context/duration.ts"
import { GraphBuilder } from "./graph/graph-builder.ts"
import { definedAt, moveToDefaults } from "./inherited-problems.ts"
import { workflowNameProblem } from "./context/names.ts"
import { compileNotify } from "./context/notify.ts"
import { compileParams } from "./workflow/params.ts"
import { checkReferences } from "./graph/references.ts"
import { compileSchedules } from "./workflow/schedule.ts"
import { checkTypes } from "./task/schemas.ts"
import { compileTriggers } from "./workflow/triggers.ts"
import { checkOwnWorkflow } from "./task/wait.ts"

/** `files`: the files beside the definition that its commands may name. */
export type CompileResult =
  | { ok: true; workflow: CompiledWorkflow; files: CommandFile[] }
  | { ok: false; problems: DefinitionProblem[] }

export const compile = (definition: WorkflowDefinition, options: CompileOptions = {}): CompileResult => {
  const context = new CompileContext(options)
  const nameProblem = workflowNameProblem(definition.name)
  if (nameProblem !== null) context.problems.add(["name"], nameProblem)
  if (definition.types !== undefined) checkTypes(context, definition.types)
  const params = compileParams(context, definition.params)
  const deadlineMs = compileDuration(context, definition.deadline, ["deadline"])
  const timeoutMs = compileDuration(context, definition.timeout, ["timeout"])
  const graph = new GraphBuilder(context, definition)
  const topLevel = graph.build()
  const workflow: CompiledWorkflow = omitUndefined({
    format: 1 as const,
    name: definition.name,
    description: definition.description,
    tags: [...new Set(definition.tags ?? [])],
    params,
    schedules: compileSchedules(context, definition, params),
    webhook: definition.webhook,
    triggers: compileTriggers(context, definition, params),
    dependsOnPast: definition.depends_on_past === true ? (true as const) : undefined,
    notify: compileNotify(context, definition.notify ?? [], ["notify"], "run"),
    deadlineMs,
    concurrency: definition.concurrency,
    maxActiveRuns: definition.max_active_runs,
    timeoutMs,
    priority: definition.priority,
    include: checkInclude(context, definition.include ?? []),
    nodes: graph.nodes,
  })
  setReads(workflow, checkReferences(context, workflow, graph.scopes, topLevel))
  setParents(context, workflow)
  checkOwnWorkflow(context, workflow)
  const problems = moveToDefaults(context.problems.list, definition)
  return problems.length === 0 ? { ok: true, workflow, files: commandFiles(context, definition) } : { ok: false, problems }
}

/** Returns each file once, with the first command that runs it, or else that names it. */
const commandFiles = ({ files }: CompileContext, definition: WorkflowDefinition): CommandFile[] => {
  const byName = new Map<string, CommandFile>()
  for (const mention of files) {
    const { file, isRun } = mention
    const known = byName.get(file)
    if (known === undefined || (isRun && !known.isRun))
      byName.set(file, { ...mention, path: definedAt(mention.path, definition) })
  }
  return [...byName.values()]
}

/** Sets `reads` of every node: its direct upstream, and the nodes that its expressions name. */
const setReads = ({ nodes }: CompiledWorkflow, named: ReadonlyMap<number, ReadonlySet<number>>): void => {
  for (const [i, node] of nodes.entries()) {
    node.reads = [...new Set([...node.upstream, ...(named.get(i) ?? [])])].sort((a, b) => a - b)
  }
}

/** Sets `parent` of the nodes whose expressions read it. Outside of a fanned group, the reference is a problem already. */
const setParents = (context: CompileContext, { nodes }: CompiledWorkflow): void => {
  for (const { refs, site } of context.uses) {
    if (site.node === null || !refs.some(({ root }) => root === "parent")) continue
    const node = nodes[site.node]!
    let { group } = node
    while (group !== null && nodes[group]!.fan === undefined) ({ group } = nodes[group]!)
    if (group !== null) node.parent = group
  }
}

const checkInclude = ({ problems }: CompileContext, include: string[]): string[] => {
  for (const [i, pattern] of include.entries()) {
    if (pattern.startsWith("/") || pattern.split(/[\\/]/).includes("..")) {
      problems.add(["include", i], "must be a path inside the folder of the definition")
    }
  }
  return include
}
