// The code of the library as a few files: a program that opens a database would load 340 modules, which takes longer than the rest of its
// start and 12 MB of memory. Entries keep their paths; what they share is in dist/shared. The modules of threads stay files of their own.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { build, type OutputChunk } from "rolldown"
import { bundleOf } from "./bundled.ts"
import { closureOf } from "./closure.ts"
import { withImports } from "./imports.ts"

/** A module that names the file of a thread, next to itself, such as `"./heartbeat-thread.js"`. */
const THREAD = /["']\.\/([a-z-]+-(?:thread|worker))(?:\.js)?["']/g

const OWN_URL = "import.meta.url"

/** Writes the scripts of these entries, which are relative to `dist`. */
export const writeLibrary = async (dist: string, entries: readonly string[], target: string): Promise<void> => {
  const threads = new Set<string>()
  const { output } = await build({
    cwd: dist,
    input: Object.fromEntries(entries.map((entry) => [entry.slice(0, -".js".length), join(dist, entry)])),
    platform: "node",
    // Libraries are bundled apart, or optional.
    external: /^[^./]/,
    logLevel: "warn",
    plugins: [
      {
        name: "threads",
        transform(text, path) {
          const names = [...text.matchAll(THREAD)].map(([, name]) => `${name}.js`)
          if (names.length === 0 || !text.includes(OWN_URL)) return null
          const module = relative(dist, path)
          for (const name of names) threads.add(join(dirname(module), name))
          // The bundle is one folder below dist/, as the entries are.
          return text.replaceAll(OWN_URL, `new URL("../${module}", ${OWN_URL}).href`)
        },
      },
    ],
    output: { entryFileNames: "[name].js", chunkFileNames: "shared/[name]-[hash].js", format: "esm" },
    write: false,
  })
  for (const { fileName, code } of output.filter((file): file is OutputChunk => file.type === "chunk"))
    write(target, fileName, withLibraries(fileName, code))
  for (const thread of threads)
    for (const file of closureOf(dist, [thread]))
      write(target, file, withLibraries(file, readFileSync(join(dist, file), "utf8")))
}

/** Returns a script that imports the bundled libraries by their path, without its map. */
export const withLibraries = (file: string, text: string): string =>
  withImports(file, text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n"), (specifier) => bundleOf(specifier, file))

const write = (folder: string, file: string, text: string): void => {
  const path = join(folder, file)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
