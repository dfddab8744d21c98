// Libraries that Ork's packages contain as one file each. They are large on disk (types, tests, locales, several formats), and users
// would install 20 MB of which Ork needs one.

import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join, sep } from "node:path"
import { build, type OutputChunk } from "rolldown"

/** Files by what Ork's code imports. Those that it loads with `require` are CommonJS. */
export const BUNDLED: Readonly<Record<string, string>> = {
  croner: "croner.js",
  zod: "zod.js",
  yaml: "yaml.js",
  "ajv/dist/2020.js": "ajv.cjs",
  re2js: "re2js.cjs",
  "@bufbuild/cel": "cel.cjs",
  "@bufbuild/cel/ext": "cel-ext.cjs",
}

const FORMATS = [
  // The builds of zod and yaml for browsers are modules, which keep their named exports.
  { extension: ".js", format: "esm", platform: "browser" },
  { extension: ".cjs", format: "cjs", platform: "node" },
] as const

/** Writes the bundles and the licences of what they contain. */
export const writeBundles = async (root: string, folder: string): Promise<void> => {
  const modules: string[] = []
  for (const { extension, format, platform } of FORMATS) {
    const entries = Object.entries(BUNDLED).filter(([, file]) => file.endsWith(extension))
    const { output } = await build({
      cwd: root,
      input: Object.fromEntries(entries.map(([specifier, file]) => [file.slice(0, -extension.length), specifier])),
      platform,
      external: /^node:/,
      logLevel: "warn",
      output: {
        dir: folder,
        format,
        minify: true,
        entryFileNames: `[name]${extension}`,
        chunkFileNames: `shared-[hash]${extension}`,
      },
    })
    modules.push(...output.filter((file): file is OutputChunk => file.type === "chunk").flatMap(({ moduleIds }) => moduleIds))
  }
  writeFileSync(join(folder, "LICENSES"), licencesOf(modules))
}

const licencesOf = (modules: readonly string[]): string =>
  [...new Set(modules.map(packageFolder).filter((folder) => folder !== null))]
    .toSorted()
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
        [field: string]: string
      }
      const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
      const text = file === undefined ? "" : `\n${readFileSync(join(folder, file), "utf8").trim()}\n`
      return `${name} ${version}, ${license}\n${text}`
    })
    .join(`\n${"-".repeat(80)}\n\n`)

/** Returns the folder of the package that a module belongs to; null for modules of the bundler. */
const packageFolder = (module: string): string | null => {
  const marker = `${sep}node_modules${sep}`
  const at = module.lastIndexOf(marker)
  if (at === -1) return null
  const [first, second] = module.slice(at + marker.length).split(sep)
  const name = first!.startsWith("@") ? join(first!, second!) : first!
  return join(module.slice(0, at), "node_modules", name)
}

/** Returns the path of a bundled library from a file of dist/, which contains the bundles in `bundled`; null for other modules. */
export const bundleOf = (specifier: string, file: string): string | null => {
  const bundle = BUNDLED[specifier]
  if (bundle === undefined) return null
  const up = "../".repeat(file.split("/").length - 1)
  return `${up === "" ? "./" : up}bundled/${bundle}`
}
