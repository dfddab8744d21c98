// The configuration of one command: its flags, the environment, ork.yaml of the current folder, the defaults.

import { readFile } from "node:fs/promises"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import type { Context } from "./backends.ts"
import { InputError } from "../terminal/errors.ts"
import { type Config, resolveConfig, type Sources } from "../../config.ts"

/** Flags that every command with a store takes. */
export interface StoreFlags {
  databaseUrl?: string
  objectStore?: string
}

/** A flag that may be repeated, as its setting takes it. */
export const listed = (given: readonly string[]): string | undefined => (given.length === 0 ? undefined : given.join(","))

export const loadConfig = async (context: Context, flags: Sources["flags"]): Promise<Config> => {
  const resolved = resolveConfig({
    flags,
    env: context.env,
    file: await readSettings(join(context.cwd, "ork.yaml")),
    machine: { cores: availableParallelism() },
  })
  if ("problems" in resolved) throw new InputError(resolved.problems.join("\n"))
  const { workerProfiles } = resolved.config
  if (Object.keys(workerProfiles).length > 0) {
    const { profileProblems } = await import("../../definition/worker-profiles.ts")
    const problems = profileProblems(workerProfiles)
    if (problems.length > 0) throw new InputError(problems.join("\n"))
  }
  return resolved.config
}

const readSettings = async (path: string): Promise<Sources["file"]> => {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw new InputError(`ork.yaml cannot be read: ${error.message}`)
  })
  if (text === null) return null
  const { parseDataFile } = await import("./data-file.ts")
  return parseDataFile(text, "ork.yaml")
}
