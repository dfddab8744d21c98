// `ork validate FILE…`: compiles each file and lists every problem; stores nothing. Exit 2 if any has one.

import type { Context } from "../target/backends.ts"
import { readDefinition } from "../target/definition.ts"
import { InputError } from "../terminal/errors.ts"
import { print, printError, printJson } from "../terminal/output.ts"
import { loadConfig } from "../target/settings.ts"
import { plural } from "../terminal/text.ts"
import { type Problem, problemText } from "../../core/model/problems.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"

export interface ValidateOptions {
  json?: boolean
}

type Judged = { file: string; problems: Problem[]; workflow: CompiledWorkflow | null }

export const validate = async (context: Context, files: string[], options: ValidateOptions): Promise<number> => {
  const judged: Judged[] = []
  const { workerProfiles } = await loadConfig(context, {})
  for (const file of files) judged.push(await judge(context, file, workerProfiles))
  const bad = judged.some(({ problems }) => problems.length > 0)
  if (options.json === true) {
    printJson(
      context,
      judged.map(({ file, problems, workflow }) => ({
        file,
        valid: problems.length === 0,
        workflow: workflow?.name ?? null,
        problems,
      })),
    )
    return bad ? 2 : 0
  }
  for (const { file, problems, workflow } of judged) {
    for (const problem of problems) printError(context, `ork: ${problemText(problem, file)}`)
    if (workflow !== null) print(context, `${file}: ${workflow.name} is valid, ${plural(workflow.nodes.length, "task")}`)
  }
  return bad ? 2 : 0
}

const judge = async (context: Context, file: string, profiles: WorkerProfiles): Promise<Judged> => {
  try {
    const parsed = await readDefinition(context.cwd, file, profiles)
    return parsed.ok ? { file, problems: [], workflow: parsed.workflow } : { file, problems: parsed.problems, workflow: null }
  } catch (error) {
    if (!(error instanceof InputError)) throw error
    return { file, problems: [{ path: "", message: error.message.replace(`${file}: `, "") }], workflow: null }
  }
}
