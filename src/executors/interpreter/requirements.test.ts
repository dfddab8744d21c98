import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { readRequirements } from "./requirements.ts"

const setup = (files: { [path: string]: string }) => {
  const folder = mkdtempSync(join(tmpdir(), "ork-requirements-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  for (const [path, text] of Object.entries(files)) put(path, text)
  return { folder, put, read: (requirements: string | string[]) => readRequirements(requirements, folder) }
}

test("comments and blank lines are left out, continued lines are joined, and included files take the place of their line", async () => {
  const { read } = setup({
    "requirements.txt": "# tools\n-r deps/base.txt\nrequests==2.0 \\\n  --hash=sha256:aa\n\nruff  # lint\n",
    "deps/base.txt": "-r more.txt\npandas\n",
    "deps/more.txt": "numpy",
  })
  const lines = ["numpy", "pandas", "requests==2.0    --hash=sha256:aa", "ruff"]
  expect(await read("requirements.txt")).toEqual({ lines, identity: lines, isLocal: false })
  expect((await read(["-r deps/base.txt", "requests"])).lines).toEqual(["numpy", "pandas", "requests"])
})

test("local paths become absolute, and their content counts", async () => {
  const { folder, put, read } = setup({ "pkg/setup.py": "1", "wheels/a.whl": "1", "limits.txt": "x<2" })
  const list = [
    "./pkg",
    "--find-links wheels",
    "-c limits.txt",
    "git+https://example.org/a/b",
    "--index-url=https://example.org/x",
  ]
  const { lines, identity, isLocal } = await read(list)
  expect(lines).toEqual([
    `${folder}/pkg`,
    `--find-links ${folder}/wheels`,
    `-c ${folder}/limits.txt`,
    "git+https://example.org/a/b",
    "--index-url=https://example.org/x",
  ])
  expect(isLocal).toBe(true)
  const copy = setup({ "pkg/setup.py": "1", "wheels/a.whl": "1", "limits.txt": "x<2" })
  expect((await copy.read(list)).identity).toEqual(identity)
  put("pkg/setup.py", "22")
  expect((await read(list)).identity).not.toEqual(identity)
})

test("a missing file, an editable install and a loop are errors that name them", async () => {
  const { folder, read } = setup({ "loop.txt": "-r loop.txt" })
  await expect(read("gone.txt")).rejects.toThrow(`requirements: the file ${folder}/gone.txt cannot be read`)
  await expect(read(["-e ./pkg"])).rejects.toThrow("requirements: `-e ./pkg` is an editable install")
  await expect(read("loop.txt")).rejects.toThrow("requirements: loop.txt is included more than 10 levels deep")
})

test("only files of the folder are read, whatever links lead to", async () => {
  const outside = setup({ "admin.key": "ork_key", "pkg/setup.py": "1" })
  const { folder, read } = setup({ "base.txt": "numpy", "pkg/setup.py": "1" })
  symlinkSync(join(outside.folder, "admin.key"), join(folder, "link.txt"))
  symlinkSync(outside.folder, join(folder, "up"))
  symlinkSync(join(folder, "base.txt"), join(folder, "same.txt"))
  execFileSync("mkfifo", [join(folder, "pipe.txt")])
  for (const line of [
    `-r ${outside.folder}/admin.key`,
    "-r ../x.txt",
    "-r link.txt",
    "-r up/admin.key",
    "--requirement=link.txt",
  ]) {
    await expect(read([line])).rejects.toThrow("cannot be read")
  }
  await expect(read("link.txt")).rejects.toThrow(`link.txt cannot be read: it is outside of ${folder}`)
  await expect(read("pipe.txt")).rejects.toThrow("it is not a regular file")
  expect((await read("same.txt")).lines).toEqual(["numpy"])
})

test("the content of files elsewhere does not count, and pipes are not read", async () => {
  const outside = setup({ "pkg/setup.py": "1" })
  const { folder, read } = setup({ "pkg/setup.py": "1" })
  execFileSync("mkfifo", [join(folder, "pkg/pipe")])
  symlinkSync("/", join(folder, "pkg/root"))
  const { lines, isLocal } = await read(["./pkg", "file:///", `${outside.folder}/pkg`])
  expect(lines).toEqual([`${folder}/pkg`, "file:///", `${outside.folder}/pkg`])
  expect(isLocal).toBe(true)
})
