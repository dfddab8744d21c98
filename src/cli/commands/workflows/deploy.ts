// `ork deploy FILE|FOLDER…`: validates all definitions with the server and lists every problem. Deploys them, each with the files
// that it names, only if there is no problem.

import { readFile } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { unreadableFile } from "../../target/definition.ts"
import { listDefinitions } from "../../target/definition-files.ts"
import { InputError } from "../../terminal/errors.ts"
import { print, printError, printJson } from "../../terminal/output.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { type Problem, problemText } from "../../../core/model/problems.ts"
import { collectBundle } from "../../../engine/services/bundle-files.ts"
import type { Bundle } from "../../../objects/bundles/bundles.ts"
import { parseDefinition } from "../../../definition/parse.ts"
import { type Client, ClientError, type DefinitionText, type Workflow } from "../../../protocol/client/client.ts"

interface DefinitionFile {
  file: string
  definition: DefinitionText
  /** Files that the definition names; null if it names none or cannot be parsed. */
  bundle: Bundle | null
  /** Paths of the files in the bundle. */
  paths: string[]
  /** Problems with the named files. */
  problems: string[]
  warnings: string[]
}

export const deploy = async (context: Context, paths: string[], options: ServerFlags): Promise<number> => {
  const client = await connect(context, options)
  const files = await listDefinitions(context, paths)
  const definitions = await Promise.all(files.map((file) => readDefinitionFile(context, file)))
  const versions = await validateAll(client, definitions)
  for (const warning of definitions.flatMap(({ warnings }) => warnings)) printError(context, `ork: warning: ${warning}`)
  const deployed: Workflow[] = []
  for (const { file, definition, bundle, paths: bundled } of definitions) {
    if (bundle !== null) await client.putBundle(bundle)
    const { workflow } = await client.deploy(definition, bundle === null ? {} : { bundle: bundle.hash })
    deployed.push(workflow)
    const lines = [`${file}: ${resultText(workflow, versions.get(file) ?? null)}`, ...listed(bundled)]
    if (options.json !== true) print(context, lines.join("\n"))
  }
  if (options.json === true) printJson(context, deployed)
  return 0
}

/** Returns the deployed version of each file's workflow, null if it is new. Throws an InputError with all problems. */
const validateAll = async (client: Client, files: readonly DefinitionFile[]): Promise<Map<string, number | null>> => {
  const problems: string[] = []
  const versions = new Map<string, number | null>()
  for (const { file, definition, bundle, problems: bundleProblems } of files) {
    problems.push(...bundleProblems)
    if (bundleProblems.length > 0) continue
    const validation = await client.validate(definition, bundle === null ? {} : { bundle: bundle.hash })
    problems.push(...validation.problems.map((problem) => problemText(omitUndefined(problem), file)))
    if (validation.name !== null) versions.set(file, await deployedVersion(client, validation.name))
  }
  if (problems.length > 0) throw new InputError(problems.join("\n"))
  return versions
}

/** Number of files that are listed for each definition. */
const MAX_LISTED = 50

const listed = (paths: readonly string[]): string[] => {
  const lines = paths.slice(0, MAX_LISTED).map((path) => `  with ${path}`)
  return paths.length > MAX_LISTED ? [...lines, `  and ${paths.length - MAX_LISTED} more files`] : lines
}

const resultText = ({ name, version }: Workflow, before: number | null): string => {
  if (before === null) return `${name} is deployed, version ${version}`
  return before === version ? `${name} is unchanged, version ${version}` : `${name} is updated, version ${version}`
}

/** Returns null if the workflow is not deployed. */
const deployedVersion = async (client: Client, name: string): Promise<number | null> => {
  try {
    return (await client.getWorkflow(name)).version
  } catch (error) {
    if (error instanceof ClientError && error.code === "NOT_FOUND") return null
    throw error
  }
}

const readDefinitionFile = async (context: Context, file: string): Promise<DefinitionFile> => {
  const path = resolve(context.cwd, file)
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadableFile(file, error))
  })
  const definition: DefinitionText = { text, format: file.endsWith(".json") ? "json" : "yaml" }
  const parsed = parseDefinition(text, { file })
  const collected = parsed.ok ? await collectBundle(dirname(path), parsed) : null
  const lines = (problems: Problem[]): string[] => problems.map((problem) => problemText(problem, file))
  const none = { file, definition, bundle: null, paths: [], problems: [], warnings: [] }
  if (collected === null) return none
  if (!collected.ok) return { ...none, problems: lines(collected.problems) }
  const { bundle, paths, warnings } = collected
  return { ...none, bundle, paths, warnings: lines(warnings) }
}
