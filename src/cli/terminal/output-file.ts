// Writes the file that `--output` names.

import { writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { InputError } from "./errors.ts"

/**
 * Writes an output file. `suggested`: name of a file in a folder that was given instead. Rejects with an InputError that says what to
 * do.
 */
export const writeOutputFile = async (
  cwd: string,
  file: string,
  suggested: string,
  content: Parameters<typeof writeFile>[1],
  options: { mode?: number } = {},
): Promise<void> => {
  const isFolder = (): InputError => new InputError(`${file} is a folder; name a file in it: -o ${join(file, suggested)}`)
  if (file.endsWith("/")) throw isFolder()
  try {
    await writeFile(resolve(cwd, file), content, options)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "EISDIR") throw isFolder()
    if (code === "ENOENT" || code === "ENOTDIR")
      throw new InputError(`${file} cannot be written, because its folder does not exist; create the folder first`)
    throw error
  }
}
