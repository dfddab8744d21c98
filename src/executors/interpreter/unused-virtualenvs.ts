// Removes virtualenvs that no task has used for a while. The time of change of `complete` in their folder is the last use, to the day.

import { readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises"
import { join } from "node:path"

const DAY_MS = 86_400_000
const MAX_UNUSED_MS = 30 * DAY_MS
/** Prefix of folders that are being removed. */
const REMOVED = "removed-"

/** Records that a task uses a virtualenv. */
export const markUsed = async (folder: string): Promise<void> => {
  const file = join(folder, "complete")
  const now = new Date()
  const info = await stat(file).catch(() => null)
  if (info !== null && now.getTime() - info.mtimeMs > DAY_MS) await utimes(file, now, now).catch(() => undefined)
}

/**
 * Removes the virtualenvs of a folder that were last used more than 30 days ago and that no process uses. Removes nothing where the
 * system does not list processes.
 */
export const removeUnused = async (folder: string): Promise<void> => {
  const names = await readdir(folder).catch(() => [])
  const old: string[] = []
  for (const name of names) {
    const info = await stat(join(folder, name, "complete")).catch(() => null)
    if (name.startsWith(REMOVED) || (info !== null && Date.now() - info.mtimeMs > MAX_UNUSED_MS)) old.push(name)
  }
  if (old.length === 0) return
  const inUse = await foldersInUse(old.map((name) => join(folder, name)))
  for (const name of old) {
    const path = join(folder, name)
    if (inUse === null || inUse.has(path)) continue
    // A renamed folder is complete for nobody while its files are removed.
    const removed = name.startsWith(REMOVED) ? path : join(folder, `${REMOVED}${name}`)
    await rename(path, removed)
      .then(() => rm(removed, { recursive: true, force: true }))
      .catch(() => undefined)
  }
}

/** Returns those of the folders that the command line or the environment of a process names; null: the system does not say. */
const foldersInUse = async (folders: readonly string[]): Promise<Set<string> | null> => {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name))
  if (pids.length === 0) return null
  const found = new Set<string>()
  for (const pid of pids) {
    // A process that has ended has no files.
    const read = (file: string): Promise<string> => readFile(`/proc/${pid}/${file}`, "latin1").catch(() => "")
    const text = (await read("cmdline")) + (await read("environ"))
    for (const folder of folders) if (text.includes(Buffer.from(folder).toString("latin1"))) found.add(folder)
  }
  return found
}
