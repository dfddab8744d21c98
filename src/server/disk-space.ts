// Detects a full disk before tasks fail on it in ways that are hard to understand.

import { statfs } from "node:fs/promises"

/** With less than this, databases, logs and outputs cannot be written reliably. */
const MIN_FREE_BYTES = 10 * 1024 * 1024

/** Returns the problem when the disk of a folder is full; null otherwise, and when that is not known. */
export const fullDiskProblem = async (folder: string, stat: typeof statfs = statfs): Promise<string | null> => {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error)
  if (found instanceof Error) return null
  const free = found.bavail * found.bsize
  if (free >= MIN_FREE_BYTES) return null
  return `the disk of its data folder is full (${(free / 1024 / 1024).toFixed(1)} MiB free): free some space`
}
