// A definition in, a compiled workflow out: from text (YAML or JSON) or from a value that is parsed already (the API, the SDK).
// Everything that is wrong is told at once: limits and syntax alone, else shape, graph and expressions together.

import { compile } from "../core/compile/compile.ts"
import { contentHash } from "../core/compile/hash.ts"
import type { WorkflowDefinition } from "../core/model/definition.ts"
import { isObject } from "../core/model/json.ts"
import { type DefinitionProblem, type Path, pathText, type Problem } from "../core/model/problems.ts"
import type { WorkerProfiles } from "../core/settings/worker-profiles.ts"
import type { CompiledWorkflow } from "../core/model/workflow.ts"
import { workflowSchema } from "./workflow-schema.ts"
import { readDocument, type TextDocument } from "./document.ts"
import { resolveAliases } from "./aliases.ts"
import { problemsOfIssues } from "./schema-issues.ts"
import { jsonValueProblem } from "./json-value.ts"
import { recoverDefinition } from "./recover.ts"

export type ParsedDefinition =
  | { ok: true; workflow: CompiledWorkflow; hash: string; source: string }
  | { ok: false; problems: Problem[] }

export interface ParseOptions {
  format?: "yaml" | "json"
  /** Only its ending is looked at: `.json` means JSON. */
  file?: string
  /** What `worker` may name; without it that is not judged. */
  profiles?: WorkerProfiles
}

export const parseDefinition = (text: string, options: ParseOptions = {}): ParsedDefinition => {
  const format = options.format ?? (options.file?.endsWith(".json") === true ? "json" : "yaml")
  const { document, problems } = readDocument(text.replace(/^\uFEFF/, ""), format)
  if (document === null) return { ok: false, problems }
  return finish(check(document.value, options.profiles), text, problems, document)
}

/** `value` may come from anywhere; what JSON cannot hold is refused. */
export const parseValue = (value: unknown, options: Pick<ParseOptions, "profiles"> = {}): ParsedDefinition => {
  const broken = jsonValueProblem(value)
  if (broken !== null) return { ok: false, problems: [broken] }
  return finish(check(value, options.profiles), JSON.stringify(value, null, 2), [], null)
}

interface Checked {
  workflow: CompiledWorkflow | null
  findings: DefinitionProblem[]
  origin(path: Path): Path
}

const check = (raw: unknown, profiles: WorkerProfiles | undefined): Checked => {
  const known = profiles === undefined ? {} : { profiles }
  if (!isObject(raw)) {
    const what = raw === null ? "the definition is empty" : "the definition is no object"
    return { workflow: null, findings: [{ path: [], message: `${what}; it needs name and tasks` }], origin: (path) => path }
  }
  const { value, findings, origin } = resolveAliases(raw)
  const shape = workflowSchema.safeParse(value, { reportInput: true })
  if (shape.success) {
    const compiled = compile(value as WorkflowDefinition, known)
    if (compiled.ok) return { workflow: compiled.workflow, findings, origin }
    return { workflow: null, findings: [...findings, ...compiled.findings], origin }
  }
  const misshapen = problemsOfIssues(shape.error.issues)
  const found = [...findings, ...misshapen]
  const rest = recoverDefinition(value, misshapen)
  if (rest === null) return { workflow: null, findings: found, origin }
  const compiled = compile(rest.definition, { ...known, incomplete: rest.incomplete })
  return { workflow: null, findings: compiled.ok ? found : [...found, ...compiled.findings], origin }
}

const finish = (
  { workflow, findings, origin }: Checked,
  source: string,
  before: Problem[],
  document: TextDocument | null,
): ParsedDefinition => {
  const problems = [
    ...before,
    ...findings.map(({ path, message, suggestion, key }): Problem => {
      const own = origin(path)
      return {
        path: pathText(own),
        message,
        ...(document !== null && document.locate(own, key === true)),
        ...(suggestion !== undefined && { suggestion }),
      }
    }),
  ]
  if (workflow !== null && problems.length === 0) return { ok: true, workflow, hash: contentHash(workflow), source }
  return {
    ok: false,
    problems: problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0)),
  }
}
