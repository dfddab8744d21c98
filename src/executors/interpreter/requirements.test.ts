import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
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

test("comments and blank lines are left out, continued lines are joined, and included files take the place of their line", () => {
  const { read } = setup({
    "requirements.txt": "# tools\n-r deps/base.txt\nrequests==2.0 \\\n  --hash=sha256:aa\n\nruff  # lint\n",
    "deps/base.txt": "-r more.txt\npandas\n",
    "deps/more.txt": "numpy",
  })
  const lines = ["numpy", "pandas", "requests==2.0    --hash=sha256:aa", "ruff"]
  expect(read("requirements.txt")).toEqual({ lines, identity: lines, isLocal: false })
  expect(read(["-r deps/base.txt", "requests"]).lines).toEqual(["numpy", "pandas", "requests"])
})

test("local paths become absolute, and their content counts", () => {
  const { folder, put, read } = setup({ "pkg/setup.py": "1", "wheels/a.whl": "1", "limits.txt": "x<2" })
  const list = [
    "./pkg",
    "--find-links wheels",
    "-c limits.txt",
    "git+https://example.org/a/b",
    "--index-url=https://example.org/x",
  ]
  const { lines, identity, isLocal } = read(list)
  expect(lines).toEqual([
    `${folder}/pkg`,
    `--find-links ${folder}/wheels`,
    `-c ${folder}/limits.txt`,
    "git+https://example.org/a/b",
    "--index-url=https://example.org/x",
  ])
  expect(isLocal).toBe(true)
  const copy = setup({ "pkg/setup.py": "1", "wheels/a.whl": "1", "limits.txt": "x<2" })
  expect(copy.read(list).identity).toEqual(identity)
  put("pkg/setup.py", "22")
  expect(read(list).identity).not.toEqual(identity)
})

test("a missing file, an editable install and a loop are errors that name them", () => {
  const { folder, read } = setup({ "loop.txt": "-r loop.txt" })
  expect(() => read("gone.txt")).toThrow(`requirements: the file ${folder}/gone.txt cannot be read`)
  expect(() => read(["-e ./pkg"])).toThrow("requirements: `-e ./pkg` is an editable install")
  expect(() => read("loop.txt")).toThrow("requirements: loop.txt is included more than 10 levels deep")
})
