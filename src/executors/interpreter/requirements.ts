// Reads the requirements of a task as lines for pip: with included files in place and absolute paths. Their identity does not depend on
// the folder: it consists of the lines as written and a fingerprint of each local file that they name.

import { createHash } from "node:crypto"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

export interface Requirements {
  lines: string[]
  /** Equal for requirements that mean the same packages. */
  identity: string[]
  /** True if the lines name local files. */
  isLocal: boolean
}

/** Included files may include others, up to this depth. */
const MAX_DEPTH = 10
const MAX_CACHED = 10_000

const INCLUDE = /^(?:-r\s*|--requirement[\s=]+)(\S+)$/
const EDITABLE = /^(?:-e|--editable)\b/
const ARCHIVE = /\.(?:whl|zip|tar\.gz)$/

/** Hashes of files by path, size and time of change: tasks of a run read the same files again and again. */
const hashes = new Map<string, string>()

/** `requirements`: lines, or the name of a file in the folder. Throws an error that names the line or the file. */
export const readRequirements = (requirements: string | readonly string[], folder: string): Requirements => {
  const written: string[] = []
  const fingerprints: string[] = []
  const read = (lines: readonly string[], from: string, depth: number): string[] =>
    lines.flatMap((line) => {
      const text = line.replace(/(?:^|\s)#.*$/, "").trim()
      if (EDITABLE.test(text)) {
        throw new Error(`requirements: \`${text}\` is an editable install, which the folder of one run cannot keep; remove -e`)
      }
      const included = INCLUDE.exec(text)?.[1]
      if (included === undefined) {
        if (text === "") return []
        written.push(text)
        return [withAbsolutePaths(text, folder, fingerprints)]
      }
      if (depth === MAX_DEPTH) throw new Error(`requirements: ${included} is included more than ${MAX_DEPTH} levels deep`)
      const file = resolve(from, included)
      return read(linesOf(file), dirname(file), depth + 1)
    })
  const isFile = typeof requirements === "string"
  const lines = isFile
    ? read(linesOf(resolve(folder, requirements)), dirname(resolve(folder, requirements)), 0)
    : read(requirements, folder, 0)
  return { lines, identity: [...written, ...fingerprints], isLocal: fingerprints.length > 0 }
}

/** Returns the lines of a file; a line that ends with a backslash continues. */
const linesOf = (file: string): string[] => {
  try {
    return readFileSync(file, "utf8")
      .replaceAll(/\\\r?\n/g, " ")
      .split(/\r?\n/)
  } catch (error) {
    throw new Error(`requirements: the file ${file} cannot be read; is it beside the definition, and in \`include\`?`, {
      cause: error,
    })
  }
}

/** Makes the paths in a line absolute, because pip runs elsewhere. */
const withAbsolutePaths = (line: string, folder: string, fingerprints: string[]): string =>
  line.replaceAll(/[^\s=]+/g, (word) => {
    const name = word.replace(/^file:(?:\/\/)?/, "")
    if (!line.startsWith("-") && !name.includes("/") && !ARCHIVE.test(name)) return word
    const path = resolve(folder, name)
    if (name.startsWith("-") || statSync(path, { throwIfNoEntry: false }) === undefined) return word
    fingerprints.push(fingerprint(path))
    return name === word ? path : word
  })

/** Returns a hash of a file, or of the names and contents of a folder. */
const fingerprint = (path: string): string => {
  const info = statSync(path)
  if (info.isDirectory()) {
    const entries = readdirSync(path).toSorted()
    return hashOf(JSON.stringify(entries.map((name) => [name, fingerprint(join(path, name))])))
  }
  const version = [path, info.size, info.mtimeMs].join("\0")
  let hash = hashes.get(version)
  if (hash === undefined) {
    if (hashes.size >= MAX_CACHED) hashes.clear()
    hashes.set(version, (hash = hashOf(readFileSync(path))))
  }
  return hash
}

const hashOf = (data: string | Buffer): string => createHash("sha256").update(data).digest("hex")
