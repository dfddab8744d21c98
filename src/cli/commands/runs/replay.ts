// `ork replay FILE --task NAME`: runs one task of an exported run here, with the input that it had. Needs neither a server nor the stores
// of the folder: everything else is in the file and in a temporary folder.

import { readFile, rm } from "node:fs/promises"
import { resolve } from "node:path"
import { findTask, type ExportedRun, type ExportedTask, replayWorkflow } from "../../replay/recorded-run.ts"
import { runReplay } from "../../replay/run-replay.ts"
import type { Context } from "../../target/context.ts"
import { unreadableFile } from "../../target/definition.ts"
import { joinRepeated, loadConfig } from "../../target/load-config.ts"
import { InputError } from "../../terminal/errors.ts"
import { parseTask } from "../../terminal/option-values.ts"
import { print, printError } from "../../terminal/output.ts"
import { printable, truncate } from "../../terminal/text.ts"
import type { Config } from "../../../config.ts"
import { taskDisplayName } from "../../../core/model/task-path.ts"
import { type CompiledWorkflow, type Node, secretNames } from "../../../core/model/workflow.ts"
import { createOwnedFolder } from "../../../objects/owned-folder.ts"
import { runExport } from "../../../protocol/api/run-export.ts"
import type { TaskRow } from "../../../store/contract/store.ts"

/** Characters of a command that are shown. */
const MAX_WORK = 200

export interface ReplayOptions {
  task: string
  index?: string
  path?: string
  handlers: string[]
}

export const replay = async (context: Context, file: string, options: ReplayOptions): Promise<number> => {
  const exported = await readExport(context, file)
  const task = findTask(exported, parseTask(options.task, options))
  const workflow = replayWorkflow(exported, task.name)
  const node = workflow.nodes.find((each) => each.name === task.name)!
  const config = await loadConfig(context, { handlers: joinRepeated(options.handlers) })
  await checkSecrets(context, config, node)
  const note = (text: string): void => printError(context, `ork: ${printable(text)}`)
  for (const text of differences(exported, task, node)) note(text)
  const folder = createOwnedFolder("replay")
  try {
    const row = await runReplay(context, { config, folder, exported, workflow, task, note })
    return printResult(context, task, row)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const readExport = async ({ cwd }: Context, file: string): Promise<ExportedRun> => {
  const text = await readFile(resolve(cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadableFile(file, error))
  })
  const wrong = (reason: string): InputError => new InputError(`${file} is not a run that \`ork export-run\` wrote: ${reason}`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw wrong("it is not JSON")
  }
  const parsed = runExport.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw wrong(`${issue!.path.join(".") || "it"}: ${issue!.message}`)
}

/** Throws an InputError that names the secrets that the task needs and that this machine does not have. */
const checkSecrets = async (context: Context, config: Config, node: Node): Promise<void> => {
  const secrets = await context.backends.openSecrets(config, context)
  const missing: string[] = []
  for (const name of secretNames(node)) if ((await secrets.find(name)) === null) missing.push(name)
  if (missing.length === 0) return
  const variables = missing.map((name) => `ORK_SECRET_${name}`).join(" and ")
  throw new InputError(`an export has no secrets, and the task needs ${missing.join(", ")}: set ${variables}`)
}

/** Returns what is known to differ from the exported run. */
const differences = ({ run, workflow, bundle }: ExportedRun, task: ExportedTask, node: Node): string[] => {
  const compiled = workflow as unknown as CompiledWorkflow
  const name = taskDisplayName(task.name, task.path)
  const notes = [
    `replaying ${name} of ${run.workflow}#${run.number}, which was ${task.status}, as a new run`,
    `the export decides what runs here, with your rights: ${truncate(printable(workOf(node)), MAX_WORK)}`,
  ]
  if (compiled.bundle !== undefined && bundle === null)
    notes.push(
      "the files of the workflow are not in the export (that takes a key with the scope author): the task runs in this folder",
    )
  if (compiled.bundle === undefined) notes.push("the export has no files: the task runs in this folder")
  if (node.artifactsFrom !== undefined)
    notes.push("artifacts of other tasks are not in the export: $ORK_ARTIFACTS has empty folders")
  if (secretNames(node).length > 0) notes.push(`secrets come from this machine: ${secretNames(node).join(", ")}`)
  return notes
}

/** Returns what a task runs, on one line. */
const workOf = ({ command, file, function: name, executor }: Node): string => {
  if (command !== undefined)
    return "shell" in command ? command.shell.trim().replaceAll(/\s*\n\s*/g, "; ") : JSON.stringify(command.argv)
  return file === undefined ? `a task of the executor ${executor}` : `${name ?? "a function"} in ${file}`
}

const printResult = (context: Context, task: ExportedTask, row: TaskRow): number => {
  const { status, error, output } = row
  const name = taskDisplayName(task.name, task.path)
  if (output !== null && "inline" in output && output.inline !== null) print(context, JSON.stringify(output.inline))
  const same = status === task.status && (error ?? null) === task.error ? ", as in the exported run" : ""
  printError(context, `ork: ${name} is ${status}${same}${error === null ? "" : `: ${printable(error)}`}`)
  return status === "success" ? 0 : 1
}
