// `ork init --typescript` and `ork dev`, with the built package, as a user starts a project.

import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it, onTestFinished, vi } from "vitest"
import { ork, ORK, REPO, temporaryFolder } from "../support/ork.ts"

const run = promisify(execFile)
/** The compiler takes a second alone, and much longer on a busy machine. */
const TIMEOUT_MS = 240_000

/** Returns a folder with the TypeScript template, which uses the packages of this checkout. */
const template = async (): Promise<string> => {
  const folder = temporaryFolder()
  expect(await ork(["init", "--typescript"], { cwd: folder })).toMatchObject({ code: 0, stderr: "" })
  mkdirSync(join(folder, "node_modules/@types"), { recursive: true })
  symlinkSync(REPO, join(folder, "node_modules/ork"))
  for (const name of ["zod", "@types/node"]) symlinkSync(join(REPO, "node_modules", name), join(folder, "node_modules", name))
  return folder
}

it(
  "the template of ork init --typescript compiles, and its tests pass",
  async () => {
    const cwd = await template()
    await run(join(REPO, "node_modules/.bin/tsc"), [], { cwd })
    const { stdout } = await run(process.execPath, ["--test", "--test-reporter=tap"], { cwd })
    expect(stdout).toMatch(/^# pass 2$/m)
    expect(stdout).toMatch(/^# fail 0$/m)
  },
  TIMEOUT_MS,
)

it(
  "the declarations of ork types give yaml its params",
  async () => {
    const cwd = await template()
    writeFileSync(
      join(cwd, "a.yaml"),
      'name: a\nparams: { day: { type: date, required: true } }\ntasks: { x: { command: "true" } }\n',
    )
    expect(await ork(["types", "a.yaml"], { cwd })).toMatchObject({ code: 0 })
    const program = `
import { Ork, yaml } from "ork"
const ork = await Ork.open({ run: [] })
await ork.enqueue(yaml("a.yaml"), { day: "2026-01-31" })
// @ts-expect-error day is a text
await ork.enqueue(yaml("a.yaml"), { day: 1 })
`
    writeFileSync(join(cwd, "typed.ts"), program)
    await run(join(REPO, "node_modules/.bin/tsc"), [], { cwd })
  },
  TIMEOUT_MS,
)

it(
  "ork dev runs a program, serves its database, and runs it again after a change",
  async () => {
    const cwd = await template()
    const child = spawn(ORK, ["dev", "app.ts", "--port", "0"], {
      cwd,
      env: { ...process.env, PORT: "0" },
      stdio: ["ignore", "pipe", "pipe"],
    })
    const ended = once(child, "exit")
    onTestFinished(() => void child.kill("SIGKILL"))
    let output = ""
    child.stdout.on("data", (data: Buffer) => (output += data.toString()))
    child.stderr.on("data", (data: Buffer) => (output += data.toString()))
    const printed = (pattern: RegExp): Promise<RegExpExecArray> =>
      vi.waitFor(() => pattern.exec(output) ?? expect.fail(output), { timeout: 40_000, interval: 50 })
    const [, url] = await printed(/is ready at (http:\/\/\S+)/)
    const key = readFileSync(join(cwd, ".ork/admin.key"), "utf8").trim()
    const response = await fetch(`${url}/api/v1/workflows`, { headers: { authorization: `Bearer ${key}` } })
    const { items } = (await response.json()) as { items: { name: string }[] }
    expect(items.map(({ name }) => name).toSorted()).toEqual(["greet-all", "welcome"])

    const app = readFileSync(join(cwd, "app.ts"), "utf8")
    writeFileSync(join(cwd, "app.ts"), `${app}\nconsole.log("changed program")\n`)
    await printed(/ork dev: app\.ts has changed; restarting/)
    await printed(/changed program/)

    child.kill("SIGINT")
    expect(await ended).toEqual([0, null])
  },
  TIMEOUT_MS,
)

it("ork dev rejects a file that does not exist", async () => {
  expect(await ork(["dev", "none.ts"], { cwd: temporaryFolder() })).toMatchObject({
    code: 2,
    stderr: "ork: none.ts: there is no such file\n",
  })
})
