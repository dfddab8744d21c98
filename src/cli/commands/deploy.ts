// `ork deploy FILE|FOLDER…`: checks all definitions with the server, tells every problem, and deploys them if there is none, each with
// the files that it names.

import { readFile, stat } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { Context } from "../target/backends.ts"
import { connect, type ServerFlags } from "../target/connect.ts"
import { unreadable } from "../target/definition.ts"
import { InputError } from "../terminal/errors.ts"
import { print, printJson } from "../terminal/output.ts"
import { problemText } from "../../core/model/problems.ts"
import { collectBundle } from "../../engine/services/bundle-files.ts"
import type { Bundle } from "../../objects/bundles.ts"
import { parseDefinition } from "../../definition/parse.ts"
import { definitionsIn } from "../../server/folder-deploys.ts"
import { type Client, ClientError, type DefinitionText, type Workflow } from "../../protocol/client/client.ts"

export interface DeployOptions extends ServerFlags {
  json?: boolean
}

interface Read {
  file: string
  definition: DefinitionText
  /** What it names; null: nothing, or it is not yet known to be well formed. */
  bundle: Bundle | null
  /** What is wrong with those files. */
  problems: string[]
}

export const deploy = async (context: Context, files: string[], options: DeployOptions): Promise<number> => {
  const client = await connect(context, options)
  const named = await Promise.all(files.map((file) => definitionsOf(context, file)))
  const read = await Promise.all(named.flat().map((file) => readText(context, file)))
  const problems: string[] = []
  const known = new Map<string, number | null>()
  for (const { file, definition, bundle, problems: ofFiles } of read) {
    problems.push(...ofFiles)
    // Files that cannot be sent were told of.
    if (ofFiles.length > 0) continue
    const judged = await client.validate(definition, bundle === null ? {} : { bundle: bundle.hash })
    for (const { path, message, line, column, suggestion } of judged.problems) {
      const place = { ...(line !== undefined && { line }), ...(column !== undefined && { column }) }
      problems.push(problemText({ path, message, ...place, ...(suggestion !== undefined && { suggestion }) }, file))
    }
    if (judged.name !== null) known.set(file, await versionOf(client, judged.name))
  }
  if (problems.length > 0) throw new InputError(problems.join("\n"))

  const deployed: Workflow[] = []
  for (const { file, definition, bundle } of read) {
    if (bundle !== null) await client.putBundle(bundle)
    const { workflow } = await client.deploy(definition, bundle === null ? {} : { bundle: bundle.hash })
    deployed.push(workflow)
    if (options.json !== true) print(context, `${file}: ${sentence(workflow, known.get(file) ?? null)}`)
  }
  if (options.json === true) printJson(context, deployed)
  return 0
}

const sentence = ({ name, version }: Workflow, before: number | null): string => {
  if (before === null) return `${name} is deployed, version ${version}`
  return before === version
    ? `${name} is the same as before, version ${version}`
    : `${name} is deployed anew, version ${version}`
}

/** null: not deployed yet. */
const versionOf = async (client: Client, name: string): Promise<number | null> => {
  try {
    return (await client.getWorkflow(name)).version
  } catch (error) {
    if (error instanceof ClientError && error.code === "NOT_FOUND") return null
    throw error
  }
}

/** A folder stands for the definitions in it. */
const definitionsOf = async (context: Context, path: string): Promise<string[]> => {
  const found = await stat(resolve(context.cwd, path)).catch(() => null)
  if (found?.isDirectory() !== true) return [path]
  const files = await definitionsIn(resolve(context.cwd, path))
  if (files.length === 0) throw new InputError(`${path}: there are no definitions (.yaml, .yml, .json) in this folder`)
  return files.map((file) => join(path, file))
}

const readText = async (context: Context, file: string): Promise<Read> => {
  const path = resolve(context.cwd, file)
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadable(file, error))
  })
  const definition: DefinitionText = { text, format: file.endsWith(".json") ? "json" : "yaml" }
  const parsed = parseDefinition(text, { file })
  const collected = parsed.ok ? await collectBundle(dirname(path), parsed.workflow) : null
  if (collected?.ok === false) {
    return { file, definition, bundle: null, problems: collected.problems.map((problem) => problemText(problem, file)) }
  }
  return { file, definition, bundle: collected?.bundle ?? null, problems: [] }
}
