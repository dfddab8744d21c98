// Opens files of a folder that tasks may change, with the rights of Ork: links must not lead it to files that the task may not read.

import { realpath } from "node:fs/promises"
import { type OpenedFile, openedPath, openRegularFile } from "./regular-file.ts"

/** Tells whether a path is a folder or in it. Both are real paths. */
export const isInside = (path: string, folder: string): boolean =>
  `${path}/`.startsWith(folder.endsWith("/") ? folder : `${folder}/`)

/**
 * Opens a regular file. Returns null when there is none. Throws when it is outside of the folder, which is a real path; a link inside the
 * folder may lead to another file inside.
 */
export const openInside = async (folder: string, path: string): Promise<OpenedFile | null> => {
  const real = await realpath(path).catch(() => null)
  if (real === null) return null
  if (!isInside(real, folder)) throw new Error(`it is outside of ${folder}`)
  const opened = await openRegularFile(real)
  if (opened === null || (await openedPath(opened, real)) === real) return opened
  await opened.file.close()
  throw new Error("it was replaced while it was being opened")
}
