// `ork deploy FILE|FOLDER…`: validates all definitions with the server and lists every problem. Deploys them, each with the files
// that it names, only if there is no problem.

import { readFile } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import type { Context } from "../target/context.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { unreadableFile } from "../target/definition.ts"
import { listDefinitions } from "../target/definition-files.ts"
import { InputError } from "../terminal/errors.ts"
import { print, printJson } from "../terminal/output.ts"
import { omitUndefined } from "../../core/model/omit-undefined.ts"
import { problemText } from "../../core/model/problems.ts"
import { collectBundle } from "../../engine/services/bundle-files.ts"
import type { Bundle } from "../../objects/bundles/bundles.ts"
import { parseDefinition } from "../../definition/parse.ts"
import { type Client, ClientError, type DefinitionText, type Workflow } from "../../protocol/client/client.ts"

interface DefinitionFile {
  file: string
  definition: DefinitionText
  /** Files that the definition names; null if it names none or cannot be parsed. */
  bundle: Bundle | null
  /** Problems with the named files. */
  problems: string[]
}

export const deploy = async (context: Context, paths: string[], options: ServerFlags): Promise<number> => {
  const client = await connect(context, options)
  const files = await listDefinitions(context, paths)
  const definitions = await Promise.all(files.map((file) => readDefinitionFile(context, file)))
  const versions = await validateAll(client, definitions)
  const deployed: Workflow[] = []
  for (const { file, definition, bundle } of definitions) {
    if (bundle !== null) await client.putBundle(bundle)
    const { workflow } = await client.deploy(definition, bundle === null ? {} : { bundle: bundle.hash })
    deployed.push(workflow)
    if (options.json !== true) print(context, `${file}: ${resultText(workflow, versions.get(file) ?? null)}`)
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
  const collected = parsed.ok ? await collectBundle(dirname(path), parsed.workflow) : null
  if (collected?.ok === false) {
    return { file, definition, bundle: null, problems: collected.problems.map((problem) => problemText(problem, file)) }
  }
  return { file, definition, bundle: collected?.bundle ?? null, problems: [] }
}
