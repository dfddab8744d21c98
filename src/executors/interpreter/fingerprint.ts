// Fingerprints of local packages: hashes of the names and contents of files.

import { createHash } from "node:crypto"
import { lstat, opendir, readlink } from "node:fs/promises"
import { join } from "node:path"
import { openInside } from "../../objects/shared/file-inside.ts"
import { fileBytes } from "../../objects/shared/regular-file.ts"

/** Limits of a package: Ork hashes it before each task that needs it. */
const MAX_FILES = 10_000
const MAX_BYTES = 1024 ** 3
const MAX_CACHED = 10_000

/** Hashes of files by path, size and time of change: tasks of a run read the same files again and again. */
const hashes = new Map<string, string>()

interface Limits {
  files: number
  bytes: number
}

/** Returns a hash of a file, or of the names and contents of a folder, in which links are not followed. `name`: how errors call it. */
export const fingerprintOf = async (folder: string, path: string, name: string): Promise<string> => {
  const left: Limits = { files: MAX_FILES, bytes: MAX_BYTES }
  try {
    return await hashOf(folder, path, left)
  } catch (error) {
    if (!(error instanceof PackageTooLarge)) throw error
    throw new Error(`requirements: ${name} has more than ${MAX_FILES} files or 1 GiB; name a smaller folder`, { cause: error })
  }
}

class PackageTooLarge extends Error {}

const hashOf = async (folder: string, path: string, left: Limits): Promise<string> => {
  const info = await lstat(path)
  left.files -= 1
  if (left.files < 0 || (info.isFile() && (left.bytes -= info.size) < 0)) throw new PackageTooLarge()
  if (info.isDirectory()) return hashOfFolder(folder, path, left)
  if (info.isSymbolicLink()) return textHash(await readlink(path))
  if (!info.isFile()) return textHash("")
  const version = [path, info.size, info.mtimeMs].join("\0")
  const known = hashes.get(version)
  if (known !== undefined) return known
  const hash = await hashOfFile(folder, path, info.size)
  if (hashes.size >= MAX_CACHED) hashes.clear()
  hashes.set(version, hash)
  return hash
}

const hashOfFolder = async (folder: string, path: string, left: Limits): Promise<string> => {
  const names: string[] = []
  for await (const { name } of await opendir(path)) {
    names.push(name)
    if (names.length > MAX_FILES) throw new PackageTooLarge()
  }
  const entries: [string, string][] = []
  for (const name of names.toSorted()) entries.push([name, await hashOf(folder, join(path, name), left)])
  return textHash(JSON.stringify(entries))
}

/** Hashes a file, of which not more than `size` bytes count: another task may write it meanwhile. */
const hashOfFile = async (folder: string, path: string, size: number): Promise<string> => {
  const opened = await openInside(folder, path)
  const hash = createHash("sha256")
  if (opened === null) return hash.digest("hex")
  try {
    let read = 0
    for await (const bytes of fileBytes(opened.file)) {
      hash.update(bytes)
      read += bytes.byteLength
      if (read > size) break
    }
  } finally {
    await opened.file.close()
  }
  return hash.digest("hex")
}

const textHash = (text: string): string => createHash("sha256").update(text).digest("hex")
