// Finds what `ork validate` warns about beyond a definition itself: workflows that tasks start, and templates of other tools. Pure.

import { nearest } from "../../core/values/nearest.ts"
import { nodePath } from "../../core/model/node-path.ts"
import type { DefinitionProblem, Problem } from "../../core/model/problems.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"

export interface Findings {
  problems: DefinitionProblem[]
  /** A server may have the workflow that is not among the files. */
  warnings: DefinitionProblem[]
}

/** Checks each task that starts a workflow with a fixed name: that the workflow is known, and that the task's input fits its params. */
export const subWorkflowProblems = (workflow: CompiledWorkflow, known: readonly CompiledWorkflow[]): Findings => {
  const found: Findings = { problems: [], warnings: [] }
  for (const node of workflow.nodes) {
    const template = node.executor === "workflow" ? node.fields["workflow"] : undefined
    if (template === undefined || !("lit" in template) || typeof template.lit !== "string") continue
    const name = template.lit
    const child = known.find((each) => each.name === name)
    if (child !== undefined) found.problems.push(...inputProblems(node, child))
    else {
      const names = known.map((each) => each.name)
      const near = nearest(name, names)
      found.warnings.push({
        path: [...nodePath(node), "workflow"],
        message: `there is no workflow ${name} in this folder; the server must have it`,
        ...(near !== undefined && { suggestion: near }),
      })
    }
  }
  return found
}

const inputProblems = (node: Node, child: CompiledWorkflow): DefinitionProblem[] => {
  const given = node.input !== undefined && "map" in node.input ? Object.keys(node.input.map) : literalKeys(node)
  const path = [...nodePath(node), "input"]
  const names = child.params.map(({ name }) => name)
  const unknown = given.filter((key) => !names.includes(key))
  const missing = child.params.filter(
    ({ name, required, default: value }) => required && value === undefined && !given.includes(name),
  )
  return [
    ...unknown.map((key) => {
      const near = nearest(key, names)
      const message = `the workflow ${child.name} has no param ${key}`
      return { path: [...path, key], message, key: true as const, ...(near !== undefined && { suggestion: near }) }
    }),
    ...missing.map(({ name }) => ({ path, message: `the workflow ${child.name} requires the param ${name}` })),
  ]
}

const literalKeys = ({ input }: Node): string[] =>
  input !== undefined && "lit" in input && typeof input.lit === "object" && input.lit !== null ? Object.keys(input.lit) : []

/** A text such as `{{ ds }}`, which is a template in Jinja and Mustache and plain text in Ork. Go templates begin with a dot. */
const FOREIGN = /(?<![$\w])\{\{-?\s*([A-Za-z_][\w.[\]"' ]*?)\s*(?:\|[^}]*)?-?\}\}|\{%-?\s*\w+[^%]*%\}/g

export const foreignTemplates = (text: string): Problem[] =>
  text.split("\n").flatMap((line, i) => {
    if (/^\s*#/.test(line)) return []
    return [...line.matchAll(FOREIGN)].map((match) => ({
      path: "",
      message:
        match[1] === undefined
          ? `${match[0]} is plain text here: conditions are written as \`if:\`, and loops as \`foreach:\``
          : `${match[0]} is plain text here: expressions are written as \${{ … }}`,
      line: i + 1,
      column: match.index + 1,
    }))
  })
