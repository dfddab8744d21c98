// Reads and compiles a definition file.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { InputError } from "../terminal/errors.ts"
import { problemText } from "../../core/model/problems.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import { parseDefinition, type ParsedDefinition } from "../../definition/parse.ts"

export type Definition = Extract<ParsedDefinition, { ok: true }>

/** `file` is as typed, relative to `cwd`. Throws an InputError if it cannot be read. */
export const readDefinition = async (cwd: string, file: string, profiles: WorkerProfiles): Promise<ParsedDefinition> => {
  const text = await readFile(resolve(cwd, file), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new InputError(unreadableFile(file, error))
  })
  return parseDefinition(text, { file, profiles })
}

/** Throws an InputError with one line per problem if the definition is invalid. */
export const loadDefinition = async (cwd: string, file: string, profiles: WorkerProfiles): Promise<Definition> => {
  const parsed = await readDefinition(cwd, file, profiles)
  if (parsed.ok) return parsed
  throw new InputError(parsed.problems.map((problem) => problemText(problem, file)).join("\n"))
}

export const unreadableFile = (file: string, error: NodeJS.ErrnoException): string => {
  switch (error.code) {
    case "ENOENT":
      return `${file}: there is no such file`
    case "EISDIR":
      return `${file}: is a folder; name the workflow file in it`
    case "EACCES":
      return `${file}: this user may not read it`
    default:
      return `${file}: cannot be read: ${error.message}`
  }
}
