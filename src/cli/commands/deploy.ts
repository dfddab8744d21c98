// `ork deploy FILE…`: checks all files with the server, tells every problem, and deploys them if there is none.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import type { Context } from "../backends.ts"
import { connect, type ServerFlags } from "../connect.ts"
import { unreadable } from "../definition.ts"
import { InputError } from "../errors.ts"
import { print, printJson } from "../output.ts"
import { problemText } from "../../core/problems.ts"
import { type Client, ClientError, type DefinitionText, type Workflow } from "../../protocol/client.ts"

export interface DeployOptions extends ServerFlags {
  json?: boolean
}

interface Read {
  file: string
  definition: DefinitionText
}

export const deploy = async (context: Context, files: string[], options: DeployOptions): Promise<number> => {
  const client = await connect(context, options)
  const read = await Promise.all(files.map((file) => readText(context, file)))
  const problems: string[] = []
  const known = new Map<string, number | null>()
  for (const { file, definition } of read) {
    const judged = await client.validate(definition)
    for (const { path, message, line, column, suggestion } of judged.problems) {
      const place = { ...(line !== undefined && { line }), ...(column !== undefined && { column }) }
      problems.push(problemText({ path, message, ...place, ...(suggestion !== undefined && { suggestion }) }, file))
    }
    if (judged.name !== null) known.set(file, await versionOf(client, judged.name))
  }
  if (problems.length > 0) throw new InputError(problems.join("\n"))

  const deployed: Workflow[] = []
  for (const { file, definition } of read) {
    const { workflow } = await client.deploy(definition)
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

const readText = async (context: Context, file: string): Promise<Read> => {
  const text = await readFile(resolve(context.cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadable(file, error))
  })
  return { file, definition: { text, format: file.endsWith(".json") ? "json" : "yaml" } }
}
