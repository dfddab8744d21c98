// Loads the configuration of a command from its flags, the environment, ork.yaml of the current folder, and the defaults.

import { readFile } from "node:fs/promises"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import type { Context } from "./context.ts"
import { InputError } from "../terminal/errors.ts"
import { type Config, resolveConfig, type Sources } from "../../config.ts"

/** Flags of every command that opens the stores. */
export interface StoreFlags {
  databaseUrl?: string
  objectStore?: string
  json?: boolean
}

/** Joins the values of a repeated flag into the text of its setting. */
export const joinRepeated = (values: readonly string[]): string | undefined =>
  values.length === 0 ? undefined : values.join(",")

/** Throws an InputError with one line per problem if the configuration is invalid. */
export const loadConfig = async (context: Context, flags: Sources["flags"]): Promise<Config> => {
  const resolved = resolveConfig({
    flags,
    env: context.env,
    file: await readConfigFile(join(context.cwd, "ork.yaml")),
    machine: { cores: availableParallelism() },
  })
  if ("problems" in resolved) throw new InputError(resolved.problems.join("\n"))
  const { workerProfiles } = resolved.config
  if (Object.keys(workerProfiles).length > 0) {
    const { profileProblems } = await import("../../definition/profile-problems.ts")
    const problems = profileProblems(workerProfiles)
    if (problems.length > 0) throw new InputError(problems.join("\n"))
  }
  return resolved.config
}

const readConfigFile = async (path: string): Promise<Sources["file"]> => {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw new InputError(`ork.yaml cannot be read: ${error.message}`)
  })
  if (text === null) return null
  const { parseDataFile } = await import("./data-file.ts")
  return parseDataFile(text, "ork.yaml")
}
