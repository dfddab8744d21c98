// `ork validate FILE|FOLDER…`: compiles each definition, checks the files and workflows that it names, and lists every problem; stores
// nothing. Exit code 2 if a file has a problem. A warning is about something that may exist elsewhere, or that is probably a mistake.

import { readFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { unreadableFile } from "../../target/definition.ts"
import { listDefinitions } from "../../target/definition-files.ts"
import { print, printError, printJson } from "../../terminal/output.ts"
import { loadConfig } from "../../target/load-config.ts"
import { plural } from "../../terminal/text.ts"
import { type Problem, problemText } from "../../../core/model/problems.ts"
import type { WorkerProfiles } from "../../../core/settings/worker-profiles.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { collectBundle } from "../../../engine/services/bundle-files.ts"
import { locateProblems, parseDefinition } from "../../../definition/parse.ts"
import { definitionsIn } from "../../../server/folder-deployer.ts"
import { foreignTemplates, subWorkflowProblems } from "../../target/definition-warnings.ts"

export interface ValidateOptions {
  json?: boolean
}

interface CheckedFile {
  file: string
  problems: Problem[]
  warnings: Problem[]
  source: string
  /** null if the definition has a problem. */
  workflow: CompiledWorkflow | null
}

export const validate = async (context: Context, paths: string[], options: ValidateOptions): Promise<number> => {
  const { workerProfiles } = await loadConfig(context, {})
  const files = await listDefinitions(context, paths)
  const checked: CheckedFile[] = []
  for (const file of files) checked.push(await checkFile(context, file, workerProfiles))
  const known = checked.flatMap(({ workflow }) => workflow ?? [])
  for (const each of checked) await addSubWorkflowProblems(context, each, known, workerProfiles)
  const invalid = checked.some(({ problems }) => problems.length > 0)
  if (options.json === true) {
    printJson(
      context,
      checked.map(({ file, problems, warnings, workflow }) => ({
        file,
        valid: problems.length === 0,
        workflow: workflow?.name ?? null,
        problems,
        warnings,
      })),
    )
    return invalid ? 2 : 0
  }
  for (const { file, problems, warnings, workflow } of checked) {
    for (const problem of problems) printError(context, `ork: ${problemText(problem, file)}`)
    for (const warning of warnings) printError(context, `ork: warning: ${problemText(warning, file)}`)
    if (workflow !== null && problems.length === 0) {
      print(context, `${file}: ${workflow.name} is valid, ${plural(workflow.nodes.length, "task")}`)
    }
  }
  return invalid ? 2 : 0
}

const checkFile = async (context: Context, file: string, profiles: WorkerProfiles): Promise<CheckedFile> => {
  const path = resolve(context.cwd, file)
  const invalid = (problems: Problem[]): CheckedFile => ({ file, problems, warnings: [], source: "", workflow: null })
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => error)
  if (typeof text !== "string") return invalid([{ path: "", message: unreadableFile(file, text).replace(`${file}: `, "") }])
  const parsed = parseDefinition(text, { file, profiles })
  if (!parsed.ok) return invalid(parsed.problems)
  const collected = await collectBundle(dirname(path), parsed)
  const [problems, missing] = collected.ok ? [[], collected.warnings] : [collected.problems, []]
  return { file, problems, warnings: [...missing, ...foreignTemplates(text)], source: text, workflow: parsed.workflow }
}

/** Checks the workflows that tasks start: among the checked files, then beside the file. */
const addSubWorkflowProblems = async (
  context: Context,
  { file, source, workflow, problems, warnings }: CheckedFile,
  known: readonly CompiledWorkflow[],
  profiles: WorkerProfiles,
): Promise<void> => {
  if (workflow === null || !workflow.nodes.some(({ executor }) => executor === "workflow")) return
  const folder = dirname(resolve(context.cwd, file))
  const beside: CompiledWorkflow[] = []
  for (const other of await definitionsIn(folder)) {
    const parsed = parseDefinition(await readFile(join(folder, other), "utf8"), { file: other, profiles })
    if (parsed.ok) beside.push(parsed.workflow)
  }
  const found = subWorkflowProblems(workflow, [...known, ...beside])
  problems.push(...locateProblems(source, found.problems))
  warnings.push(...locateProblems(source, found.warnings))
}
