// Assembles the two packages that users install from dist/, each in a folder of its own: `ork`, the library, and `ork-server`, the
// command with its API, web UI and executors. `node scripts/pack.ts [FOLDER]`, by default dist-packages; needs a build.

import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { writeBundles } from "./packages/bundled.ts"
import { closureOf, scriptsOf, specifiersOf } from "./packages/closure.ts"
import { withImports } from "./packages/imports.ts"
import { withLibraries, writeLibrary } from "./packages/library.ts"
import { manifestOf, type PackageFields, type RootManifest } from "./packages/manifest.ts"

const ROOT = join(import.meta.dirname, "..")
const DIST = join(ROOT, "dist")

interface Package extends PackageFields {
  /** JavaScript and declarations, relative to dist/. */
  code: readonly string[]
  /** Scripts among them that users import: the package contains all scripts as a few files. Absent: it contains each as it is. */
  entries?: readonly string[]
  /** Other files and folders with their paths in the package, by their paths in the checkout. */
  files: { [path: string]: string }
}

const root = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as RootManifest

const library = (entries: readonly string[]): Package => ({
  name: "ork",
  description: "Durable jobs, functions and workflows for TypeScript, on SQLite or Postgres, inside your program",
  bin: { ork: "bin/ork.cjs" },
  exports: root.exports,
  includes: [],
  code: closureOf(DIST, entries),
  entries: entries.filter(isScript),
  files: { "bin/ork.cjs": "bin/ork.cjs", "docs/sdk.md": "README.md" },
})

const server = (): Package => ({
  name: "ork-server",
  description: "A workflow orchestrator: graphs of tasks, schedules, retries, live logs, in one command",
  bin: { ork: "bin/ork-server.cjs", "ork-server": "bin/ork-server.cjs" },
  exports: { "./package.json": "./package.json" },
  includes: ["pg"],
  code: scriptsOf(DIST).filter((file) => !file.startsWith("ui/")),
  files: {
    "bin/ork-server.cjs": "bin/ork-server.cjs",
    "bin/preload.cjs": "bin/preload.cjs",
    "README.md": "README.md",
    "dist/ui": "dist/ui",
    native: "native",
    python: "python",
  },
})

/** Returns the scripts and declarations of the entries, relative to dist/. */
const entriesOf = ({ exports }: RootManifest): string[] =>
  Object.values(exports)
    .filter((entry) => typeof entry === "object")
    .flatMap(({ types, default: script }) => [types, script])
    .map((path) => path.replace("./dist/", ""))

const write = async (each: Package, folder: string): Promise<void> => {
  rmSync(folder, { recursive: true, force: true })
  const dist = join(folder, "dist")
  for (const file of each.code) {
    if (isScript(file) && each.entries !== undefined) continue
    const target = join(dist, file)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, packedCode(file))
  }
  if (each.entries !== undefined) await writeLibrary(DIST, each.entries, dist)
  await writeBundles(ROOT, join(dist, "bundled"))
  for (const [path, target] of Object.entries({ ...each.files, LICENSE: "LICENSE" })) {
    cpSync(join(ROOT, path), join(folder, target), { recursive: true, filter: isWanted })
  }
  const specifiers = specifiersOf(DIST, each.code.filter(isScript))
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifestOf(root, each, specifiers), null, 2)}\n`)
}

/** Returns a file of dist/ as the package contains it. */
const packedCode = (file: string): string => {
  const text = readFileSync(join(DIST, file), "utf8")
  return isScript(file) ? withLibraries(file, text) : withImports(file, text, scriptPath)
}

const isScript = (file: string): boolean => file.endsWith(".js")

/** Declarations name each other as `./a.ts`; every version of TypeScript finds `./a.js`. */
const scriptPath = (specifier: string): string | null =>
  /^\..*\.ts$/.test(specifier) ? specifier.replace(/\.ts$/, ".js") : null

/** Leaves out maps, compressed copies, which the server makes on request, and what only builds and tests read. */
const isWanted = (path: string): boolean => !/\.(?:map|gz|br|pyc)$|\/(?:__pycache__|python\/tests|manifest\.json)$/.test(path)

/** Writes the packages and returns their folders. */
export const writePackages = async (folder: string): Promise<string[]> => {
  if (!existsSync(join(DIST, "main.js"))) throw new Error("dist/ is not built; run `npm run build`")
  const packages = [library(entriesOf(root)), server()]
  for (const each of packages) await write(each, join(folder, each.name))
  return packages.map(({ name }) => join(folder, name))
}

const sizeOf = (folder: string): number =>
  globSync("**/*", { cwd: folder })
    .map((path) => statSync(join(folder, path)))
    .reduce((sum, found) => sum + (found.isFile() ? found.size : 0), 0)

if (import.meta.main) {
  for (const folder of await writePackages(resolve(process.argv[2] ?? join(ROOT, "dist-packages")))) {
    process.stdout.write(`${folder}: ${(sizeOf(folder) / 1e6).toFixed(1)} MB\n`)
  }
}
