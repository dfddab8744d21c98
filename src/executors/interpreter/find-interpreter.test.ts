import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { findInterpreter } from "./find-interpreter.ts"

const setup = (...files: string[]) => {
  const folder = mkdtempSync(join(tmpdir(), "ork-interpreter-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), "")
  }
  return { folder, find: (name: string) => findInterpreter(name, { folder, path: `${folder}/path` }) }
}

test.each([".venv", "./.venv", ".venv/bin/python"])("%s is a virtualenv beside the definition", (name) => {
  const { folder, find } = setup(".venv/pyvenv.cfg", ".venv/bin/python")
  const virtualenv = join(folder, ".venv")
  expect(find(name)).toEqual({ program: join(virtualenv, "bin/python"), bin: join(virtualenv, "bin"), virtualenv })
})

test("an absolute path and a folder that is no virtualenv are accepted", () => {
  const { folder, find } = setup("conda/bin/python", "opt/python3.12")
  const bin = join(folder, "conda/bin")
  expect(find(join(folder, "conda"))).toEqual({ program: join(bin, "python"), bin, virtualenv: null })
  const program = join(folder, "opt/python3.12")
  expect(find(program)).toEqual({ program, bin: null, virtualenv: null })
})

test("a name without a slash is a folder beside the definition, or a program in PATH", () => {
  const { folder, find } = setup("env/pyvenv.cfg", "env/bin/python", "path/env", "path/python3.12")
  expect(find("env").virtualenv).toBe(join(folder, "env"))
  expect(find("python3.12")).toEqual({ program: join(folder, "path/python3.12"), bin: null, virtualenv: null })
})

test("a missing interpreter is an error that names the path and what to do", () => {
  const { folder, find } = setup("empty/readme", "old/pyvenv.cfg")
  mkdirSync(join(folder, "old/bin"))
  symlinkSync("/gone/python3.8", join(folder, "old/bin/python"))
  const create = (name: string): string =>
    `on the machine that runs the task, create a virtualenv with \`python3 -m venv ${folder}/${name}\`, or name another interpreter`
  const gone = (name: string): string =>
    `there is no ${folder}/${name}/bin/python, or the program that it links to is gone (interpreter: ${name}); ${create(name)}`
  expect(() => find(".venv")).toThrow(`there is no Python at ${folder}/.venv (interpreter: .venv); ${create(".venv")}`)
  expect(() => find("empty")).toThrow(gone("empty"))
  expect(() => find("old")).toThrow(gone("old"))
  expect(() => find("python9")).toThrow(
    /^there is no program python9 in PATH, and no virtualenv .*; install it, or give the path/,
  )
})
