// Ork's data folder. Only Ork's user may enter it; of what is in it, tasks see only the folders that they use.

import { chmodSync, lstatSync, mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"

const FOLDER_MODE = 0o700
const FILE_MODE = 0o600

/** Folders that tasks use: run folders, upstream outputs, files of versions, inputs and outputs, Python, and those of pushed tasks. */
export const TASK_FOLDERS = ["work", "upstream", "bundles", "io", "python", "pushed"] as const

/**
 * Creates the data folder, or removes the rights that other users have on an existing one and on what is directly in it. Folders of tasks
 * keep their modes, because a task may run as another user: nobody gets there but through the data folder or a mount of the helper.
 */
export const tightenDataFolder = (dataDir: string): void => {
  mkdirSync(dataDir, { recursive: true, mode: FOLDER_MODE })
  tighten(dataDir, FOLDER_MODE)
  for (const name of readdirSync(dataDir)) {
    if ((TASK_FOLDERS as readonly string[]).includes(name)) continue
    const path = join(dataDir, name)
    tighten(path, lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true ? FOLDER_MODE : FILE_MODE)
  }
}

/** Leaves alone what another process removes meanwhile, links, and what belongs to another user. */
const tighten = (path: string, mode: number): void => {
  const info = lstatSync(path, { throwIfNoEntry: false })
  if (info === undefined || info.isSymbolicLink() || info.uid !== process.geteuid?.() || (info.mode & 0o077) === 0) return
  try {
    chmodSync(path, info.mode & mode)
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error
  }
}
