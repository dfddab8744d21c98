// Reads and compiles a definition file; everything that is wrong with it becomes one error with a line per problem.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { InputError } from "../terminal/errors.ts"
import { problemText } from "../../core/model/problems.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import { parseDefinition, type ParsedDefinition } from "../../definition/parse.ts"

export type Definition = Extract<ParsedDefinition, { ok: true }>

/** `file` as typed, relative to `cwd`. */
export const readDefinition = async (cwd: string, file: string, profiles: WorkerProfiles): Promise<ParsedDefinition> => {
  const text = await readFile(resolve(cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadable(file, error))
  })
  return parseDefinition(text, { file, profiles })
}

export const loadDefinition = async (cwd: string, file: string, profiles: WorkerProfiles): Promise<Definition> => {
  const parsed = await readDefinition(cwd, file, profiles)
  if (parsed.ok) return parsed
  throw new InputError(parsed.problems.map((problem) => problemText(problem, file)).join("\n"))
}

export const unreadable = (file: string, error: NodeJS.ErrnoException): string => {
  switch (error.code) {
    case "ENOENT":
      return `${file}: there is no such file`
    case "EISDIR":
      return `${file}: is a folder; name the workflow file in it`
    case "EACCES":
      return `${file}: may not be read by this user`
    default:
      return `${file}: cannot be read: ${error.message}`
  }
}
