// Finds the definition files that a command names.

import { stat } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Context } from "./context.ts"
import { InputError } from "../terminal/errors.ts"
import { definitionsIn } from "../../server/folder-deployer.ts"

/** Returns the files as typed; a folder stands for the definitions in it. Throws an InputError for a folder without any. */
export const listDefinitions = async (context: Context, paths: readonly string[]): Promise<string[]> =>
  (await Promise.all(paths.map((path) => definitionsAt(context, path)))).flat()

const definitionsAt = async (context: Context, path: string): Promise<string[]> => {
  const found = await stat(resolve(context.cwd, path)).catch(() => null)
  if (found?.isDirectory() !== true) return [path]
  const files = await definitionsIn(resolve(context.cwd, path))
  if (files.length === 0) throw new InputError(`${path}: there are no definitions (.yaml, .yml, .json) in this folder`)
  return files.map((file) => join(path, file))
}
