// `ork validate FILE…`: compiles each file and lists every problem; stores nothing. Exit code 2 if a file has a problem.

import type { Context } from "../target/context.ts"
import { readDefinition } from "../target/definition.ts"
import { InputError } from "../terminal/errors.ts"
import { print, printError, printJson } from "../terminal/output.ts"
import { loadConfig } from "../target/load-config.ts"
import { plural } from "../terminal/text.ts"
import { type Problem, problemText } from "../../core/model/problems.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"

export interface ValidateOptions {
  json?: boolean
}

interface CheckedFile {
  file: string
  problems: Problem[]
  workflow: CompiledWorkflow | null
}

export const validate = async (context: Context, files: string[], options: ValidateOptions): Promise<number> => {
  const checked: CheckedFile[] = []
  const { workerProfiles } = await loadConfig(context, {})
  for (const file of files) checked.push(await checkFile(context, file, workerProfiles))
  const invalid = checked.some(({ problems }) => problems.length > 0)
  if (options.json === true) {
    printJson(
      context,
      checked.map(({ file, problems, workflow }) => ({
        file,
        valid: problems.length === 0,
        workflow: workflow?.name ?? null,
        problems,
      })),
    )
    return invalid ? 2 : 0
  }
  for (const { file, problems, workflow } of checked) {
    for (const problem of problems) printError(context, `ork: ${problemText(problem, file)}`)
    if (workflow !== null) print(context, `${file}: ${workflow.name} is valid, ${plural(workflow.nodes.length, "task")}`)
  }
  return invalid ? 2 : 0
}

const checkFile = async (context: Context, file: string, profiles: WorkerProfiles): Promise<CheckedFile> => {
  try {
    const parsed = await readDefinition(context.cwd, file, profiles)
    return parsed.ok ? { file, problems: [], workflow: parsed.workflow } : { file, problems: parsed.problems, workflow: null }
  } catch (error) {
    if (!(error instanceof InputError)) throw error
    return { file, problems: [{ path: "", message: error.message.replace(`${file}: `, "") }], workflow: null }
  }
}
