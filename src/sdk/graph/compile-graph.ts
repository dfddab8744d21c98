// Compiles and deploys a graph, in the same way from code and from a file: a graph in code is written as YAML first. Loaded with the first
// graph, because the compiler is large.

import { dirname } from "node:path"
import { stringify } from "yaml"
import type { WorkflowDefinition as Source } from "../../core/model/definition.ts"
import { type Problem, problemText } from "../../core/model/problems.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { parseDefinition, type ParsedDefinition } from "../../definition/parse.ts"
import { collectBundle, withBundle } from "../../engine/services/bundle-files.ts"
import { WorkflowService, type WorkflowServiceOptions } from "../../engine/services/workflows.ts"
import { type DefinitionProblem, InvalidDefinitionError } from "../errors.ts"
import type { AnyGraph } from "./graph.ts"

type Compiled = Extract<ParsedDefinition, { ok: true }>

/** Throws an InvalidDefinitionError that names the place of each problem. */
export const compileGraph = ({ name, source }: Pick<AnyGraph, "name" | "source">): Compiled => {
  if (source.kind === "code") {
    const parsed = parseDefinition(yamlOf(source.definition))
    if (parsed.ok) return parsed
    throw new InvalidDefinitionError(
      `graph ${name}`,
      parsed.problems.map((problem) => inCode(problem, source.places)),
    )
  }
  const { file, text } = source
  const parsed = parseDefinition(text, { file })
  if (!parsed.ok) throw invalidFile(file, parsed.problems)
  if (parsed.workflow.name === name) return parsed
  throw invalidFile(file, [
    { path: "name", message: `is ${parsed.workflow.name}, but was read as ${name}; write it in one line` },
  ])
}

/** Stores a graph, with the files that its definition names, as the current version of its workflow. */
export const deployGraph = async (
  graph: AnyGraph,
  options: WorkflowServiceOptions,
  prepare: (workflow: CompiledWorkflow) => CompiledWorkflow = (workflow) => workflow,
): Promise<{ workflowId: number; versionId: number; workflow: CompiledWorkflow }> => {
  const compiled = compileGraph(graph)
  const folder = graph.source.kind === "file" ? dirname(graph.source.file) : process.cwd()
  const collected = await collectBundle(folder, compiled)
  if (!collected.ok) throw invalidFile(graph.name, collected.problems)
  const { bundle } = collected
  const definition = bundle === null ? compiled : withBundle(compiled, bundle.hash)
  const workflow = prepare(definition.workflow)
  const { workflowId, versionId } = await new WorkflowService(options).deploy({ ...definition, workflow }, { bundle })
  return { workflowId, versionId, workflow }
}

/** Returns the YAML of a graph in code. */
const yamlOf = (definition: Source): string => stringify(definition, { lineWidth: 0, aliasDuplicateObjects: false })

const invalidFile = (file: string, problems: readonly Problem[]): InvalidDefinitionError =>
  new InvalidDefinitionError(
    file,
    problems.map((problem) => {
      const { path, line, column } = problem
      return { path, message: messageOf(problem), place: line === undefined ? "" : [file, line, column].join(":") }
    }),
  )

/** Returns the problem at the place of the innermost task that its path leads through. */
const inCode = (problem: Problem, places: ReadonlyMap<string, string>): DefinitionProblem => {
  const { path } = problem
  const steps = path.split(".")
  let place = ""
  for (let length = steps.length; length > 0 && place === ""; length--)
    place = places.get(steps.slice(0, length).join(".")) ?? ""
  return { path, message: messageOf(problem), place }
}

/** Returns the message with its suggestion, without the position in the YAML. */
const messageOf = ({ message, suggestion }: Problem): string =>
  problemText({ path: "", message, ...(suggestion !== undefined && { suggestion }) })
