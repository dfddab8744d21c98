// Reads `--param NAME=VALUE` and `--params-file FILE`, and binds them to the params that the workflow declares.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { unreadableFile } from "./definition.ts"
import { InputError } from "../terminal/errors.ts"
import type { JsonObject } from "../../core/values/json.ts"
import { bindParams } from "../../core/rules/runs/params.ts"
import { problemText } from "../../core/model/problems.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Workflow } from "../../protocol/client/client.ts"

export interface ParamOptions {
  cwd: string
  param: readonly string[]
  paramsFile: string | undefined
}

/** Returns every param of the workflow, with defaults for the ones that were not given. */
export const readParams = async (workflow: CompiledWorkflow, options: ParamOptions): Promise<JsonObject> =>
  bind(workflow, await readGiven(options))

/** Returns only the params that were given, converted to their declared types; the server adds the defaults. */
export const readGivenParams = async (declared: Workflow["params"], options: ParamOptions): Promise<JsonObject> => {
  const params = declared.map(({ name, type }) => ({ name, type, required: false }))
  const given = await readGiven(options)
  const bound = Object.entries(bind({ params }, given))
  return Object.fromEntries(bound.filter(([name]) => name in given.text || name in given.values))
}

interface GivenParams {
  values: JsonObject
  text: { [name: string]: string }
}

const readGiven = async ({ cwd, param, paramsFile }: ParamOptions): Promise<GivenParams> => {
  const text = splitParams(param)
  return { text, values: paramsFile === undefined ? {} : await readParamsFile(cwd, paramsFile) }
}

const bind = (workflow: Pick<CompiledWorkflow, "params">, given: GivenParams): JsonObject => {
  const bound = bindParams(workflow, given)
  if (bound.ok) return bound.params
  throw new InputError(bound.problems.map((problem) => problemText(problem)).join("\n"))
}

const splitParams = (params: readonly string[]): { [name: string]: string } => {
  const found = new Map<string, string>()
  for (const param of params) {
    const at = param.indexOf("=")
    if (at < 1) throw new InputError(`--param: "${param}" must be NAME=VALUE`)
    const name = param.slice(0, at)
    if (found.has(name)) throw new InputError(`--param: ${name} is given twice; keep one`)
    found.set(name, param.slice(at + 1))
  }
  return Object.fromEntries(found)
}

const readParamsFile = async (cwd: string, file: string): Promise<JsonObject> => {
  const text = await readFile(resolve(cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(`--params-file: ${unreadableFile(file, error)}`)
  })
  const { parseDataFile } = await import("./data-file.ts")
  return parseDataFile(text, file)
}
