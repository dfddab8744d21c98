// The size of what a browser loads before the web UI appears, by the manifest of the build.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { expect, test } from "vitest"
import { REPO } from "./support/ork.ts"

const BUILD = join(REPO, "dist/ui")
const MOST_BYTES = 250 * 1000

interface Chunk {
  file: string
  isEntry?: boolean
  imports?: string[]
  dynamicImports?: string[]
}

const manifest = JSON.parse(readFileSync(join(BUILD, "manifest.json"), "utf8")) as Record<string, Chunk>

const reach = (names: readonly string[], seen = new Set<string>()): Set<string> => {
  for (const name of names) {
    if (seen.has(name)) continue
    seen.add(name)
    reach(manifest[name]!.imports ?? [], seen)
  }
  return seen
}

const sizeOf = (names: Iterable<string>): number =>
  [...names].reduce((sum, name) => sum + gzipSync(readFileSync(join(BUILD, manifest[name]!.file))).length, 0)

const entries = Object.keys(manifest).filter((name) => manifest[name]!.isEntry === true)

test("the first load is at most 250 KB of compressed JavaScript", () => {
  expect(entries).toHaveLength(1)
  expect(sizeOf(reach(entries))).toBeLessThan(MOST_BYTES)
})

test("the list of workflows fits in the same budget, and graph and charts are loaded on demand", () => {
  const first = Object.keys(manifest).filter((name) => name.endsWith("pages/workflows/workflows-page.tsx"))
  expect(first).toHaveLength(1)
  const loaded = reach([...entries, ...first])
  expect(sizeOf(loaded)).toBeLessThan(MOST_BYTES)
  const text = [...loaded].map((name) => readFileSync(join(BUILD, manifest[name]!.file), "utf8")).join("")
  expect([text.includes("uplot"), text.includes("react-flow"), text.includes("elk.")]).toEqual([false, false, false])
})
