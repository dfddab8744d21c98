// The files of dist/ that entry files need, found by the paths in their text: imports, and modules of threads and processes.

import { globSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { importsOf } from "./imports.ts"

/** Matches every quoted relative path. Quoted paths that are no files are ignored. */
const RELATIVE = /["'](\.\.?\/[^"'\n]+)["']/g

/** Returns the paths of the files relative to `root`, the entries among them. */
export const closureOf = (root: string, entries: readonly string[]): string[] => {
  const found = new Set<string>()
  const visit = (file: string): void => {
    if (found.has(file)) return
    found.add(file)
    const text = readFileSync(join(root, file), "utf8")
    for (const [, path] of text.matchAll(RELATIVE)) {
      const target = resolveFile(root, join(dirname(file), path!), file.endsWith(".d.ts"))
      if (target !== null) visit(target)
    }
  }
  for (const entry of entries) visit(entry)
  return [...found]
}

/** Returns the file that a path means; null if there is none. Declarations name each other by the path of the source. */
const resolveFile = (root: string, path: string, isDeclaration: boolean): string | null => {
  const candidates = isDeclaration ? [path.replace(/\.ts$/, ".d.ts")] : [path, `${path}.js`]
  const file = candidates.find(
    (candidate) => candidate.endsWith("s") && statSync(join(root, candidate), { throwIfNoEntry: false })?.isFile() === true,
  )
  return file === undefined ? null : relative(root, join(root, file))
}

/** Returns all JavaScript files of a folder, relative to it. */
export const scriptsOf = (root: string): string[] => globSync("**/*.js", { cwd: root })

/** Returns what the files import that is no file and no module of Node, such as `zod` or `ajv/dist/2020.js`. */
export const specifiersOf = (root: string, files: readonly string[]): Set<string> =>
  new Set(
    files.flatMap((file) =>
      importsOf(file, readFileSync(join(root, file), "utf8"))
        .map(({ specifier }) => specifier)
        .filter((specifier) => !/^(?:\.|node:)/.test(specifier)),
    ),
  )

/** Returns `@scope/name` of `@scope/name/path`. */
export const packageOf = (specifier: string): string =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/")
