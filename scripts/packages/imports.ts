// The modules that a file names in imports, exports and calls of `require`. Parses the file, because templates contain imports too.

import { parseSync } from "rolldown/utils"

export interface ImportedModule {
  specifier: string
  /** Place of the specifier in the text, with its quotes. */
  start: number
  end: number
}

/** A bundle renames some of the functions `require` that its modules create. */
const REQUIRE = /\brequire(?:\$\d+)?\("[^"\n]+"/g

/** Returns the modules in the order of the text. */
export const importsOf = (file: string, text: string): ImportedModule[] => {
  const { module } = parseSync(file, text)
  const places: { start: number; end: number }[] = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest),
    ...module.staticExports.flatMap(({ entries }) => entries.flatMap(({ moduleRequest }) => moduleRequest ?? [])),
    ...module.dynamicImports.map(({ moduleRequest }) => moduleRequest),
    ...[...text.matchAll(REQUIRE)].map(({ 0: call, index }) => ({
      start: index + call.indexOf('"'),
      end: index + call.length,
    })),
  ]
  // All names of one export have the same place.
  const byStart = new Map(places.map((place) => [place.start, place]))
  return [...byStart.values()]
    .toSorted((a, b) => a.start - b.start)
    .map(({ start, end }) => ({ specifier: text.slice(start + 1, end - 1), start, end }))
    .filter(({ start }) => /["']/.test(text[start]!))
}

/** Replaces the specifiers for which `replace` returns another one. */
export const withImports = (file: string, text: string, replace: (specifier: string) => string | null): string => {
  let written = ""
  let from = 0
  for (const { specifier, start, end } of importsOf(file, text)) {
    const other = replace(specifier)
    if (other === null) continue
    written += `${text.slice(from, start)}"${other}"`
    from = end
  }
  return written + text.slice(from)
}
