// Parses and compiles a definition: from text (YAML or JSON), or from a value (the API, the SDK). Reports all problems at once: first
// those of limits and syntax, otherwise those of shape, graph and expressions together.

import type { CommandFile } from "../core/compile/code/command-files.ts"
import { compile } from "../core/compile/compile.ts"
import { definedAt } from "../core/compile/inherited-problems.ts"
import { contentHash } from "../core/compile/hash.ts"
import type { WorkflowDefinition } from "../core/model/definition.ts"
import { isObject } from "../core/values/json.ts"
import { type DefinitionProblem, type Path, pathText, type Problem } from "../core/model/problems.ts"
import type { CompiledWorkflow } from "../core/model/workflow.ts"
import type { WorkerProfiles } from "../core/settings/worker-profiles.ts"
import { resolveAliases } from "./aliases.ts"
import { jsonValueProblem } from "./json-value.ts"
import { recoverDefinition } from "./recover.ts"
import { problemsOfIssues } from "./schema-issues.ts"
import { readDocument, type TextDocument } from "./text-document.ts"
import { workflowSchema } from "./workflow-schema.ts"

/** A file that a command may name, with the position of the command. `path` as in problems. */
export type LocatedFile = Omit<Problem, "message" | "suggestion"> & Omit<CommandFile, "path">

export type ParsedDefinition =
  | { ok: true; workflow: CompiledWorkflow; hash: string; source: string; files: LocatedFile[] }
  | { ok: false; problems: Problem[] }

export interface ParseOptions {
  format?: "yaml" | "json"
  /** Name of the file; `.json` at its end means JSON. */
  file?: string
  /** Worker profiles that `worker` may name; undefined: `worker` is not checked. */
  profiles?: WorkerProfiles
}

export const parseDefinition = (text: string, options: ParseOptions = {}): ParsedDefinition => {
  const format = options.format ?? (options.file?.endsWith(".json") === true ? "json" : "yaml")
  const { document, problems } = readDocument(text.replace(/^\uFEFF/, ""), format)
  if (document === null) return { ok: false, problems }
  const checked = check(document.value, options.profiles)
  return toResult(checked, text, [...problems, ...locate(checked, document)], document)
}

/** Parses a value of any type; a value that JSON cannot represent is a problem. */
export const parseValue = (value: unknown, options: Pick<ParseOptions, "profiles"> = {}): ParsedDefinition => {
  const problem = jsonValueProblem(value)
  if (problem !== null) return { ok: false, problems: [problem] }
  const checked = check(value, options.profiles)
  return toResult(checked, JSON.stringify(value, null, 2), locate(checked, null), null)
}

/** Locates problems that were found after the definition was compiled. `source` is the text of the definition. */
export const locateProblems = (source: string, problems: DefinitionProblem[]): Problem[] => {
  if (problems.length === 0) return []
  // JSON is YAML.
  const { document } = readDocument(source.replace(/^\uFEFF/, ""), "yaml")
  const { value, authorPath } = resolveAliases(document?.value ?? {})
  const defined = problems.map((problem) => ({ ...problem, path: definedAt(problem.path, value as WorkflowDefinition) }))
  return locate({ problems: defined, authorPath }, document)
}

interface CheckedDefinition {
  workflow: CompiledWorkflow | null
  problems: DefinitionProblem[]
  files?: CommandFile[]
  authorPath(path: Path): Path
}

const check = (raw: unknown, profiles: WorkerProfiles | undefined): CheckedDefinition => {
  if (!isObject(raw)) {
    const message =
      raw === null ? "the definition is empty; it needs name and tasks" : "the definition must be an object with name and tasks"
    return { workflow: null, problems: [{ path: [], message }], authorPath: (path) => path }
  }
  const options = profiles === undefined ? {} : { profiles }
  const { value, problems, authorPath } = resolveAliases(raw)
  const shape = workflowSchema.safeParse(value, { reportInput: true })
  if (shape.success) {
    const compiled = compile(value as WorkflowDefinition, options)
    if (compiled.ok) return { workflow: compiled.workflow, files: compiled.files, problems, authorPath }
    return { workflow: null, problems: [...problems, ...compiled.problems], authorPath }
  }
  const shapeProblems = problemsOfIssues(shape.error.issues)
  problems.push(...shapeProblems)
  const recovered = recoverDefinition(value, shapeProblems)
  if (recovered === null) return { workflow: null, problems, authorPath }
  const compiled = compile(recovered.definition, { ...options, incomplete: recovered.incomplete })
  return { workflow: null, problems: compiled.ok ? problems : [...problems, ...compiled.problems], authorPath }
}

/** Converts problems to paths, lines and columns of the author's document. */
const locate = (
  { problems, authorPath }: Pick<CheckedDefinition, "problems" | "authorPath">,
  document: TextDocument | null,
): Problem[] =>
  problems.map(({ path, message, suggestion, key }) => {
    const location = authorPath(path)
    return {
      path: pathText(location),
      message,
      ...document?.locate(location, key === true),
      ...(suggestion !== undefined && { suggestion }),
    }
  })

const toResult = (
  { workflow, files = [], authorPath }: CheckedDefinition,
  source: string,
  problems: Problem[],
  document: TextDocument | null,
): ParsedDefinition => {
  if (workflow === null || problems.length > 0) return { ok: false, problems: problems.toSorted(byPosition) }
  const located = files.map(({ path, ...file }) => {
    const location = authorPath(path)
    return { ...file, path: pathText(location), ...document?.locate(location, false) }
  })
  return { ok: true, workflow, hash: contentHash(workflow), source, files: located }
}

const byPosition = (a: Problem, b: Problem): number => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0)
