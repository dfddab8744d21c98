// Files and folders that survive a power loss: a new file needs a sync of its content, and of the folder that lists it.

import { mkdir, open, stat } from "node:fs/promises"
import { dirname } from "node:path"

/** Writes a new file that only this user can read. The caller syncs its folder. */
export const writeDurableFile = async (path: string, text: string): Promise<void> => {
  const file = await open(path, "wx", 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

export const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Creates a folder with its parents, for this user only, and syncs the folders that list new ones. */
export const createDurableFolder = async (folder: string): Promise<void> => {
  const first = await createFolders(folder)
  if (first === null) return
  for (let at = folder; at.length >= first.length; at = dirname(at)) await syncFolder(dirname(at))
}

/**
 * Creates a folder with its parents. Returns the first that was created; null: it exists. With `recursive`, Node's mkdir never returns
 * below a folder that refuses new ones with ENOENT, as /proc does.
 */
const createFolders = async (folder: string): Promise<string | null> => {
  try {
    return await createOne(folder)
  } catch (error) {
    const parent = dirname(folder)
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || parent === folder) throw error
    const first = await createFolders(parent)
    const own = await createOne(folder)
    return first ?? own
  }
}

/** Returns null when the folder exists. */
const createOne = async (folder: string): Promise<string | null> => {
  try {
    await mkdir(folder, { mode: 0o700 })
    return folder
  } catch (error) {
    if (await isFolder(folder)) return null
    throw error
  }
}

const isFolder = async (path: string): Promise<boolean> =>
  await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
