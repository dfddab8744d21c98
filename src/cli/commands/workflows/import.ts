// `ork import crontab|dagu|airflow FILE`: writes a definition for each workflow of another tool's file, and reports line by line what
// it could not convert. Writes only definitions that are valid, and replaces no file.

import { mkdir, readFile, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { basename, join, resolve } from "node:path"
import { stringify } from "yaml"
import type { Context } from "../../target/context.ts"
import { unreadableFile } from "../../target/definition.ts"
import { InputError } from "../../terminal/errors.ts"
import { print, printError, printJson } from "../../terminal/output.ts"
import { plural } from "../../terminal/text.ts"
import { isTimezone } from "../../../core/time/cron.ts"
import { problemText } from "../../../core/model/problems.ts"
import { parseDefinition } from "../../../definition/parse.ts"
import type { Imported, ImportedWorkflow, ImportProblem } from "../../../import/imported.ts"

export interface ImportOptions {
  out?: string
  timezone?: string
  system?: boolean
  plan?: boolean
  json?: boolean
}

export type ImportSource = "crontab" | "dagu" | "airflow"

interface NewFile {
  file: string
  line: number
  text: string
}

export const importFrom =
  (source: ImportSource) =>
  (context: Context, file: string, options: ImportOptions): Promise<number> =>
    importFile(context, source, file, options)

const importFile = async (context: Context, source: ImportSource, file: string, options: ImportOptions): Promise<number> => {
  const name = file === "-" ? "standard input" : file
  const imported = await convert(context, source, file, options)
  const { files, problems } = toFiles(imported)
  const folder = options.out ?? "."
  if (options.plan !== true) await writeAll(resolve(context.cwd, folder), files)
  if (options.json === true) {
    printJson(context, { files: files.map(({ file: path, line }) => ({ file: join(folder, path), line })), problems })
  } else {
    const lines = [
      ...files.map(({ line, file: path }) => ({ line, text: join(folder, path) })),
      ...problems.map(({ line, message }) => ({ line, text: `problem: ${message}` })),
    ]
    for (const { line, text } of lines.toSorted((a, b) => a.line - b.line)) print(context, `${name}:${line}: ${text}`)
    const done = options.plan === true ? "to be written" : "written"
    printError(context, `${plural(files.length, "file")} ${done}, ${plural(problems.length, "problem")}`)
  }
  return problems.length === 0 ? 0 : 1
}

const convert = async (
  context: Context,
  source: ImportSource,
  file: string,
  { timezone = Intl.DateTimeFormat().resolvedOptions().timeZone, system }: ImportOptions,
): Promise<Imported> => {
  if (!isTimezone(timezone)) throw new InputError(`${timezone} is not a time zone; use an IANA name such as Europe/Berlin`)
  const text = await readSource(context, file)
  const path = resolve(context.cwd, file)
  switch (source) {
    case "crontab": {
      const { importCrontab } = await import("../../../import/crontab.ts")
      const hasUsers = system ?? /^\/etc\/(?:crontab$|cron\.d\/)/.test(path)
      return importCrontab(text, { timezone, home: context.env["HOME"] ?? homedir(), hasUsers })
    }
    case "dagu": {
      const { importDagu } = await import("../../../import/dagu/dagu.ts")
      return importDagu(text, { name: basename(file).replace(/\.ya?ml$/, ""), timezone })
    }
    case "airflow": {
      const { importAirflow } = await import("../../../import/airflow/airflow.ts")
      return await importAirflow(text)
    }
    default:
      return source satisfies never
  }
}

const readSource = async (context: Context, file: string): Promise<string> => {
  const path = file === "-" ? "/dev/stdin" : resolve(context.cwd, file)
  return await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadableFile(file, error))
  })
}

/** Returns the texts of the valid definitions. The problems of the others are problems of their lines. */
const toFiles = ({ workflows, problems }: Imported): { files: NewFile[]; problems: ImportProblem[] } => {
  const files: NewFile[] = []
  const invalid: ImportProblem[] = []
  for (const workflow of workflows) {
    const file = `${workflow.definition.name}.yaml`
    const text = definitionText(workflow)
    const parsed = parseDefinition(text, { file })
    if (parsed.ok) {
      files.push({ file, line: workflow.line, text })
      for (const [name, content] of Object.entries(workflow.files ?? {}))
        files.push({ file: name, line: workflow.line, text: content })
    } else {
      const reasons = parsed.problems.map(({ path, message }) => problemText({ path, message })).join("; ")
      invalid.push({ line: workflow.line, message: reasons })
    }
  }
  return { files, problems: [...problems, ...invalid].toSorted((a, b) => a.line - b.line) }
}

const definitionText = ({ definition, line, source }: ImportedWorkflow): string => {
  const body = stringify(definition, { lineWidth: 0, flowCollectionPadding: true })
  return `# Imported, line ${line}: ${source}\n${body}`
}

/** Writes all files or none: a file that exists is an error. */
const writeAll = async (folder: string, files: readonly NewFile[]): Promise<void> => {
  await mkdir(folder, { recursive: true })
  const existing: string[] = []
  for (const { file } of files) {
    const exists = await readFile(join(folder, file)).then(
      () => true,
      () => false,
    )
    if (exists) existing.push(file)
  }
  if (existing.length > 0) {
    const more = existing.length > 5 ? ` and ${existing.length - 5} more` : ""
    throw new InputError(
      `nothing was written, because these files exist: ${existing.slice(0, 5).join(", ")}${more}; remove them, or choose another folder with --out`,
    )
  }
  for (const { file, text } of files) await writeFile(join(folder, file), text, { flag: "wx" })
}
