import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { storeArtifacts } from "./store-artifacts.ts"
import { artifactKey, readArtifactList } from "./artifact-list.ts"
import { MemoryObjectStore } from "../testing/memory.ts"

const setup = (files: { [path: string]: string } = {}) => {
  const root = mkdtempSync(join(tmpdir(), "ork-artifacts-"))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const folder = join(root, "work")
  mkdirSync(folder)
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  for (const [path, text] of Object.entries(files)) write(path, text)
  const objects = new MemoryObjectStore()
  const store = async (patterns: string[], maxBytes = 1000, workingDir = folder) => {
    const owner = { task: "task", baseDir: folder, workingDir, prefix: "runs/run-1/task/attempt/" }
    const work = { ...owner, artifacts: { patterns, maxBytes } }
    const error = await storeArtifacts(objects, work)
    const list = await readArtifactList(objects, work.prefix)
    const read = async (path: string) => Buffer.from((await objects.get(artifactKey(work.prefix, path)))!).toString()
    return { error, list, read }
  }
  return { root, folder, store }
}

test("every file that a pattern matches is stored once, under its path", async () => {
  const { store } = setup({ "out/a.csv": "1,2", "out/deep/b.csv": "3", "out/c.txt": "", "out/Größe ü.txt": "x" })
  const { error, list, read } = await store(["out/**/*.csv", "./out/a.csv", "out/*.txt"])
  expect(error).toBeNull()
  expect(list).toEqual([
    { path: "out/Größe ü.txt", bytes: 1 },
    { path: "out/a.csv", bytes: 3 },
    { path: "out/c.txt", bytes: 0 },
    { path: "out/deep/b.csv", bytes: 1 },
  ])
  expect(await read("out/a.csv")).toBe("1,2")
})

test.each([
  ["no file", ["a.csv", "b*.csv"], 'no file in its working folder matches "b*.csv"'],
  ["a folder", ["out/"], 'no file in its working folder matches "out/"; for the files of a folder, write "out/**"'],
  ["a path out of the folder", ["../x"], 'the pattern "../x" must be a path or a pattern'],
  ["more bytes than allowed", ["a.csv", "out/*"], "together they are larger than the limit of 5 bytes (ORK_MAX_ARTIFACTS)"],
])("a pattern for %s fails the attempt with the task and the pattern, and lists nothing", async (_what, patterns, message) => {
  const { store } = setup({ "a.csv": "abc", "out/b": "def" })
  const { error, list } = await store(patterns, 5)
  expect(error).toContain("the artifacts of task cannot be stored: ")
  expect(error).toContain(message)
  expect(list).toBeNull()
})

test("links and special files are rejected, whether they are the file or lead to it", async () => {
  const { root, folder, store } = setup({ "in/a.txt": "a" })
  writeFileSync(join(root, "secret.txt"), "secret")
  symlinkSync(join(root, "secret.txt"), join(folder, "link.txt"))
  symlinkSync(root, join(folder, "up"))
  symlinkSync(join(folder, "in"), join(folder, "same"))
  execFileSync("mkfifo", [join(folder, "pipe.txt")])
  expect((await store(["link.txt"])).error).toContain('the file "link.txt" is a symbolic link')
  expect((await store(["up/*.txt"])).error).toContain('a symbolic link leads to the file "up/secret.txt"')
  expect((await store(["same/a.txt"])).error).toContain('a symbolic link leads to the file "same/a.txt"')
  expect((await store(["pipe.txt"])).error).toContain('the file "pipe.txt" cannot be read: it is not a regular file')
  expect((await store(["in/a.txt"])).error).toBeNull()
})

test("a link in the path of the working folder itself is allowed", async () => {
  const { root, folder } = setup({ "a.txt": "a" })
  symlinkSync(folder, join(root, "alias"))
  const artifacts = { patterns: ["a.txt"], maxBytes: 10 }
  const alias = join(root, "alias")
  const work = { task: "task", baseDir: alias, workingDir: alias, prefix: "runs/run-1/task/attempt/", artifacts }
  expect(await storeArtifacts(new MemoryObjectStore(), work)).toBeNull()
})

test("the data folder of ork run is never stored", async () => {
  const { store } = setup({ ".ork/admin.key": "key", "a.txt": "a" })
  expect((await store(["**"])).list).toEqual([{ path: "a.txt", bytes: 1 }])
})

test("files outside of the folder of the run are never stored, whatever the working folder is", async () => {
  const { root, folder, store } = setup({ "in/a.txt": "a" })
  mkdirSync(join(root, "work-private"))
  writeFileSync(join(root, "work-private", "secret.txt"), "secret")
  symlinkSync(join(root, "work-private"), join(folder, "alias"))
  const folders = [join(root, "work-private"), root, join(folder, "alias"), join(folder, ".."), "/proc/self"]
  for (const workingDir of folders) {
    const { error, list } = await store(["**/secret.txt", "environ"], 1000, workingDir)
    expect(error).toContain(`its working folder ${workingDir} is outside of the folder of the run`)
    expect(list).toBeNull()
  }
  expect((await store(["a.txt"], 1000, join(folder, "in"))).error).toBeNull()
})
