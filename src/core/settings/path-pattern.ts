// Patterns of files and objects: an absolute path, or `s3://BUCKET/KEY?endpoint=…`, `gs://BUCKET/KEY`. `*` stands for any text within a
// name and `**` for any number of folders, at the end for all files below; neither stands for names that begin with a dot, which
// writers use for unfinished files.

import { parseObjectAddress } from "./object-address.ts"
import { fits } from "../values/name-patterns.ts"

export interface PathPattern {
  /** Address of the object store, without the key; null: files of this machine. */
  store: string | null
  /** The parts of the path or key. */
  parts: string[]
  /** What precedes the parts in the path of a match: `/`, or `s3://BUCKET/`. */
  root: string
}

export const PATH_PATTERN_HINT = "an absolute path such as /data/in/*.csv, s3://BUCKET/in/*.csv or gs://BUCKET/in/*.csv"

/** Parses a pattern; null when it is not valid. */
export const parsePathPattern = (text: string): PathPattern | null => {
  if (text.includes("\0")) return null
  if (text.startsWith("/")) return withParts(null, "/", text.slice(1))
  const [, root, key, options = ""] = /^((?:s3|gs):\/\/[^/?]+\/)([^?]+)(\?.*)?$/s.exec(text) ?? []
  if (root === undefined || key === undefined) return null
  const store = root.slice(0, -1) + options
  return parseObjectAddress(store) === null ? null : withParts(store, root, key)
}

const withParts = (store: string | null, root: string, path: string): PathPattern | null => {
  const parts = path.split("/")
  const isBad = parts.some((part) => part === "" || part === "." || part === ".." || (part.includes("**") && part !== "**"))
  return isBad ? null : { store, parts: parts.at(-1) === "**" ? [...parts, "*"] : parts, root }
}

export const isWildcard = (part: string): boolean => part.includes("*")

/** Returns whether a name fits a part of a pattern other than `**`. */
export const fitsPart = (part: string, name: string): boolean =>
  isWildcard(part) ? (part.startsWith(".") || !name.startsWith(".")) && fits(part, name) : part === name

/** Returns whether a path, by its parts, fits a pattern. Each pair of positions is compared once. */
export const fitsPattern = (parts: readonly string[], names: readonly string[]): boolean => {
  let reachable = new Set([0])
  for (const part of parts) {
    const next = new Set<number>()
    for (const from of reachable) {
      if (part !== "**") {
        if (from < names.length && fitsPart(part, names[from]!)) next.add(from + 1)
        continue
      }
      next.add(from)
      for (let to = from; to < names.length && !names[to]!.startsWith("."); to++) next.add(to + 1)
    }
    reachable = next
  }
  return reachable.has(names.length)
}

/** Returns the parts before the first wildcard, which name a folder or a prefix. */
export const literalParts = ({ parts }: PathPattern): string[] => {
  const first = parts.findIndex(isWildcard)
  return parts.slice(0, first === -1 ? parts.length - 1 : first)
}
