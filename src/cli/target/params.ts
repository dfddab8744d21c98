// `--param k=v` and `--params-file F`, bound to what the workflow declares.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { unreadable } from "./definition.ts"
import { InputError } from "../terminal/errors.ts"
import type { JsonObject } from "../../core/model/json.ts"
import { bindParams } from "../../core/rules/params.ts"
import { problemText } from "../../core/model/problems.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Workflow } from "../../protocol/client/client.ts"

export const readParams = async (
  workflow: CompiledWorkflow,
  given: { cwd: string; param: readonly string[]; paramsFile: string | undefined },
): Promise<JsonObject> => {
  const text = splitParams(given.param)
  const values = given.paramsFile === undefined ? {} : await readFileParams(given.cwd, given.paramsFile)
  const bound = bindParams(workflow, { values, text })
  if (bound.ok) return bound.params
  throw new InputError(bound.problems.map((problem) => problemText(problem)).join("\n"))
}

/** What the API says of a workflow's params. */
export type DeclaredParam = Workflow["params"][number]

/** The given ones alone, text read by the declared type: the server fills in the others. */
export const readGivenParams = async (
  declared: readonly DeclaredParam[],
  given: { cwd: string; param: readonly string[]; paramsFile: string | undefined },
): Promise<JsonObject> => {
  const specs = declared.map(({ name, type }) => ({ name, type, required: false }))
  const text = splitParams(given.param)
  const values = given.paramsFile === undefined ? {} : await readFileParams(given.cwd, given.paramsFile)
  const bound = bindParams({ params: specs }, { values, text })
  if (!bound.ok) throw new InputError(bound.problems.map((problem) => problemText(problem)).join("\n"))
  return Object.fromEntries(Object.entries(bound.params).filter(([name]) => name in text || name in values))
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

const readFileParams = async (cwd: string, file: string): Promise<JsonObject> => {
  const text = await readFile(resolve(cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(`--params-file: ${unreadable(file, error)}`)
  })
  const { parseDataFile } = await import("./data-file.ts")
  return parseDataFile(text, file)
}
