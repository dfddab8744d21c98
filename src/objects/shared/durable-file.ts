// Files and folders that survive a power loss: a new file needs a sync of its content, and of the folder that lists it.

import { mkdir, open } from "node:fs/promises"
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
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let at = folder; at.length >= first.length; at = dirname(at)) await syncFolder(dirname(at))
}
