// The start script bin/ork alone: a copy of it beside a tiny program in place of the built one.

import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeEach, afterEach, expect, onTestFinished, test } from "vitest"

const REPO = join(import.meta.dirname, "..")
const PROGRAM = `
import { DatabaseSync } from "node:sqlite"
new DatabaseSync(":memory:").close()
process.on("SIGTERM", () => process.exit(42))
const [verb, value] = process.argv.slice(2)
if (verb === "exit") process.exit(Number(value))
if (verb === "wait") setInterval(() => {}, 1000)
if (verb === "warn") process.emitWarning("mind the gap")
console.log(JSON.stringify({ pid: process.pid, node: process.execPath, args: process.argv.slice(2) }))
`
const NO_NODE = "/nonexistent"

interface Said {
  pid: number
  node: string
  args: string[]
}

let root: string
let ork: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "ork bin-"))
  ork = join(root, "bin/ork")
  for (const folder of ["bin", "dist", "elsewhere", "node_modules/node/bin"]) mkdirSync(join(root, folder), { recursive: true })
  for (const file of ["ork", "preload.cjs"]) copyFileSync(join(REPO, "bin", file), join(root, "bin", file))
  symlinkSync(process.execPath, ownNode())
  writeFileSync(join(root, "package.json"), '{ "type": "module" }')
  writeFileSync(join(root, "dist/main.js"), PROGRAM)
})

afterEach(() => rmSync(root, { recursive: true }))

const ownNode = (): string => join(root, "node_modules/node/bin/node")

const run = async (args: string[], { command = ork, path = NO_NODE, cwd = root } = {}): Promise<Said> => {
  const { stdout, stderr } = await promisify(execFile)(command, args, { cwd, env: { PATH: path } })
  expect(stderr).toBe("")
  return JSON.parse(stdout) as Said
}

const failure = async (args: string[], path = NO_NODE): Promise<{ code: number; stderr: string }> => {
  try {
    await promisify(execFile)(ork, args, { env: { PATH: path } })
  } catch (error) {
    return error as { code: number; stderr: string }
  }
  throw new Error("it did not fail")
}

/** A folder whose `node` reports another version; it runs the preload script as a real one does. */
const folderWithNode = (version: string): string => {
  const folder = join(root, `node-${version}`)
  mkdirSync(folder)
  const pretend = join(folder, "pretend.cjs")
  writeFileSync(pretend, `Object.defineProperty(process.versions, "node", { value: "${version}" })`)
  writeFileSync(join(folder, "node"), `#!/bin/sh\nexec "${process.execPath}" --require "${pretend}" "$@"\n`, { mode: 0o755 })
  return folder
}

test("the node of the checkout takes precedence over the one in PATH", async () => {
  expect((await run([], { path: folderWithNode("20.11.0") })).node).toBe(process.execPath)
})

test("arguments are passed unchanged", async () => {
  expect((await run(["a b", "", "$HOME", "*"])).args).toEqual(["a b", "", "$HOME", "*"])
})

test("it can be started from another folder and through chains of links", async () => {
  symlinkSync("../bin/ork", join(root, "elsewhere/one"))
  symlinkSync(join(root, "elsewhere/one"), join(root, "elsewhere/two"))
  const path = "/usr/bin:/bin"
  expect((await run(["x"], { command: "./two", cwd: join(root, "elsewhere"), path })).args).toEqual(["x"])
  expect((await run(["x"], { command: join(root, "elsewhere/two"), cwd: "/", path })).args).toEqual(["x"])
})

test("the exit code is passed on", async () => {
  expect((await failure(["exit", "7"])).code).toBe(7)
})

test("the started process is Ork itself, so that signals reach it", async () => {
  const child = spawn(ork, ["wait"], { stdio: ["ignore", "pipe", "inherit"], env: { PATH: NO_NODE } })
  const [line] = (await once(child.stdout, "data")) as [Buffer]
  const { pid } = JSON.parse(line.toString()) as Said
  onTestFinished(() => {
    if (pid !== child.pid) process.kill(pid, "SIGKILL")
  })
  expect(pid).toBe(child.pid)
  child.kill("SIGTERM")
  expect(await once(child, "exit")).toEqual([42, null])
})

test("warnings are shown, except the one about SQLite", async () => {
  const { stderr } = await promisify(execFile)(ork, ["warn"], { env: { PATH: NO_NODE } })
  expect(stderr).toContain("mind the gap")
  expect(stderr).not.toContain("SQLite")
})

test.each(["22.13.0", "24.0.0", "100.0.0"])("without a node of its own, it uses node %s from PATH", async (version) => {
  rmSync(ownNode())
  expect((await run(["x"], { path: `${folderWithNode(version)}:/usr/bin:/bin` })).args).toEqual(["x"])
})

test.each(["18.19.0", "20.20.2", "22.12.0"])(
  "node %s is rejected with one line that names the required version",
  async (version) => {
    rmSync(ownNode())
    const { code, stderr } = await failure(["x"], `${folderWithNode(version)}:/usr/bin:/bin`)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^ork: needs Node 22\.13 or newer, and .*\n$/)
  },
)

test("without any node it explains what to install", async () => {
  rmSync(ownNode())
  expect(await failure([])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ork: no Node found; install .*\n$/) as string,
  })
})

test("without a build it explains what to run", async () => {
  rmSync(join(root, "dist"), { recursive: true })
  const { code, stderr } = await failure([])
  expect(code).toBe(1)
  expect(stderr).toMatch(/^ork: not built yet; run `npm install` in .*\n$/)
})
