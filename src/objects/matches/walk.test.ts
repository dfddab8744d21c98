import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { globFiles } from "./glob-files.ts"
import { localMatches } from "./local-matches.ts"
import { walk, type WalkPart } from "./walk.ts"

const setup = (paths: string[]) => {
  const folder = mkdtempSync(join(tmpdir(), "ork-walk-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), "")
  }
  const glob = async (pattern: string): Promise<string[]> =>
    (await Array.fromAsync(globFiles(folder, pattern, (name) => name === "skipped"))).toSorted()
  return { folder, glob }
}

test("globs find files and folders once, without hidden and skipped ones", async () => {
  const { glob } = setup(["a.csv", "b.txt", "s/c.csv", "s/t/d.csv", "s/.e.csv", ".h/f.csv", "skipped/g.csv"])
  expect(await glob("*")).toEqual(["a.csv", "b.txt", "s"])
  expect(await glob("**/*.csv")).toEqual(["a.csv", "s/c.csv", "s/t/d.csv"])
  expect(await glob("s/**")).toEqual(["s/c.csv", "s/t", "s/t/d.csv"])
  expect(await glob("**/s/**/**/d.csv")).toEqual(["s/t/d.csv"])
  expect(await glob("./{s,.h}/{c,f}.*")).toEqual([".h/f.csv", "s/c.csv"])
  expect(await glob("**/.e.csv")).toEqual(["s/.e.csv"])
  expect(await glob("gone/*")).toEqual([])
  expect(await glob("a.csv/*")).toEqual([])
})

test("each folder is read once, however many ** a pattern has, and a search ends after a number of entries", async () => {
  const { folder } = setup([`${"d/".repeat(40)}x`])
  const deep: WalkPart[] = Array.from({ length: 60 }, () => ({ anyFolders: true }))
  const found = walk(folder, [...deep, { name: "x" }], { maxEntries: 41 })
  expect(await Array.fromAsync(found)).toEqual([join(folder, "d/".repeat(40), "x")])
  for (const name of ["l", "m"]) symlinkSync(folder, join(folder, name))
  const any: WalkPart[] = Array.from({ length: 60 }, () => ({ fits: () => true }))
  await expect(Array.fromAsync(walk(folder, any, { maxEntries: 1000 }))).rejects.toThrow(
    "the search looked at more than 1000 files and folders",
  )
  const aborted = walk(folder, any, { maxEntries: 1e9, signal: AbortSignal.abort(new Error("too late")) })
  await expect(Array.fromAsync(aborted)).rejects.toThrow("too late")
})

test("links do not lead a search into the excluded folder", async () => {
  const { folder } = setup(["data/admin.key", "data/runs/1/own", "in/a"])
  symlinkSync(join(folder, "data"), join(folder, "in/link"))
  symlinkSync(join(folder, "data/admin.key"), join(folder, "in/key"))
  const find = async (pattern: string): Promise<string[]> => {
    const excluded = join(folder, "data")
    const options = { excluded, except: join(excluded, "runs/1") }
    const matches = await Array.fromAsync(localMatches(join(folder, pattern).slice(1).split("/"), options))
    return matches.map(({ path }) => path.slice(folder.length + 1))
  }
  expect(await find("in/*")).toEqual(["in/a"])
  expect(await find("in/link/*")).toEqual([])
  expect(await find("data/*")).toEqual([])
  expect(await find("data/runs/*/own")).toEqual(["data/runs/1/own"])
})
