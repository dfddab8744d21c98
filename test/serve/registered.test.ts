// Functions that users register by name, with the built command and the built package: in handler files, and in a user's program that
// imports "ork".

import { execFile } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { ork, REPO, temporaryFolder } from "../support/ork.ts"
import { type OrkProcess, startOrk } from "../support/ork-process.ts"
import { probe, type Server, startServer } from "../support/server.ts"
import { tasksOf } from "../support/worker.ts"

/** A folder in which the package "ork" is installed. */
const folderWith = (files: { [path: string]: string }): string => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, "node_modules"))
  symlinkSync(REPO, join(folder, "node_modules/ork"))
  for (const [path, text] of Object.entries({ "package.json": '{ "type": "module" }', ...files }))
    writeFileSync(join(folder, path), text)
  return folder
}

const APP = `
import { register, FatalError } from "ork"
register("resize", async (input: { width: number }, ctx) => {
  ctx.log("resizing to", input.width)
  return { width: input.width, colour: ctx.env["COLOUR"] }
})
register("refuse", () => { throw new FatalError("never") })
`

const CALLS = {
  name: "calls",
  tasks: {
    first: { executor: "node", function: "resize", input: { width: 3 }, env: { COLOUR: "red" }, queue: "media" },
    second: {
      executor: "resize",
      depends_on: ["first"],
      input: { width: "${{ tasks.first.output.width + 1 }}" },
      labels: ["gpu"],
    },
    refuse: { executor: "refuse", retries: 5 },
  },
}

const outputs = async (server: Server, run: string): Promise<object> =>
  Object.fromEntries((await tasksOf(server, run)).map(({ name, status, attempt, output }) => [name, [status, attempt, output]]))

const explained = async (server: Server, run: string): Promise<string> =>
  JSON.stringify((await server.call("GET", `/runs/${run}/explain`)).body)

it("ork serve runs the functions of its handlers, from every queue and with its labels, and watches the file", async () => {
  const cwd = folderWith({ "app.ts": APP, "ork.yaml": "handlers: [app.ts]\n" })
  const server = await startServer(["--label", "gpu"], { cwd })
  await server.deploy(CALLS)
  const run = await server.trigger("calls")
  await server.reaches(run, "failed", "success")
  expect(await outputs(server, run)).toEqual({
    first: ["success", 1, { width: 3, colour: "red" }],
    second: ["success", 1, { width: 4 }],
    refuse: ["failed", 1, null],
  })
  expect((await server.call("GET", `/runs/${run}/tasks/first/logs`)).text).toBe("resizing to 3\n")
  expect((await server.call("GET", "/workers")).text).toContain('"functions":["resize","refuse"]')

  writeFileSync(join(cwd, "app.ts"), APP.replace("width: input.width,", "width: 10 * input.width,"))
  await probe(async () => {
    const again = await server.trigger("calls")
    await server.reaches(again, "failed", "success")
    return ((await outputs(server, again)) as { first: [string, number, { width: number }] }).first[2].width === 30
      ? true
      : null
  })

  await server.deploy({ name: "other", tasks: { a: { executor: "rezise" } } })
  const waiting = await server.trigger("other")
  expect(await explained(server, waiting)).toContain(
    "a waits because no live worker has the function rezise; start one that registers it",
  )
})

it("ork worker claims only calls of its own functions, in its queues and with its labels", async () => {
  const cwd = folderWith({ "app.ts": APP, "more.ts": 'import { register } from "ork"\nregister("more", () => "more")\n' })
  const server = await startServer([], { cwd })
  const files = ["--handlers", "app.ts", "--handlers", "more.ts"]
  const worker = startOrk(["worker", "--server", server.url, "--queue", "media", "--label", "gpu", ...files], { cwd })
  await worker.printed(/claims work from/)
  await server.deploy(CALLS)
  const run = await server.trigger("calls")
  await probe(async () => (JSON.stringify(await outputs(server, run)).includes('"first":["success"') ? true : null))
  expect(await explained(server, run)).toContain(
    "second waits because no live worker accepts the queue default and has the label gpu and has the function resize",
  )
  await server.deploy({
    name: "more",
    tasks: { a: { executor: "more", queue: "media", labels: ["gpu"] }, b: { command: "true" } },
  })
  expect(await server.reaches(await server.trigger("more"), "success", "failed")).toMatchObject({ status: "success" })
})

it("ork run rejects a workflow whose function is missing, and runs it with the function", async () => {
  const cwd = folderWith({
    "app.ts": APP,
    "a.yaml": "name: a\ntasks: { x: { executor: resize, input: { width: 1 } } }\n",
    "parent.yaml": "name: parent\ntasks: { child: { executor: workflow, workflow: a } }\n",
  })
  const { code, stderr } = await ork(["run", "a.yaml"], { cwd })
  expect([code, stderr]).toEqual([
    2,
    "ork: tasks.x: no handler file registers the function resize\n" +
      "ork: name the file that registers it with --handlers FILE, or under handlers in ork.yaml\n",
  ])
  expect(await ork(["run", "a.yaml", "--handlers", "app.ts"], { cwd })).toMatchObject({ code: 0 })
  const { stdout } = await ork(["run", "parent.yaml"], { cwd })
  const [, child] = /workflow a \(run (\S+)\)/.exec(stdout)!
  expect((await ork(["explain", child!], { cwd })).stdout).toContain(
    "x failed in attempt 1 of at most 1: no function resize is registered here; name the file that registers it with --handlers",
  )
  const twice = await ork(["run", "a.yaml", "--handlers", "app.ts", "--handlers", "b.ts"], {
    cwd: folderWith({ "app.ts": APP, "b.ts": APP, "a.yaml": "name: a\ntasks: { x: { executor: resize } }\n" }),
  })
  expect(twice.code).toBe(2)
  expect(twice.stderr).toMatch(/--handlers: there are two functions resize: in \S+app\.ts and in \S+b\.ts/)
})

const PROGRAM = `
import { register, startWorker, type FunctionContext } from "ork"
register("resize", (input: { width: number }, ctx: FunctionContext) => {
  ctx.log("resizing to", input.width)
  if (input.width < 0) throw new Error("too small")
  return { width: input.width, pid: process.pid, colour: ctx.env["COLOUR"] }
})
const worker = await startWorker({
  name: "app",
  graceMs: 300,
  queues: ["default", "media"],
  functions: {
    polite: (_: unknown, { signal, log }) => new Promise((_, reject) => {
      signal.addEventListener("abort", () => { log("going"); reject(signal.reason) })
    }),
    stubborn: () => new Promise<never>(() => {}),
  },
  handlers: { emails: async (payload: { to: string }, ctx) => ({ sent: payload.to, by: ctx.taskName }) },
})
console.log("ready at " + worker.server)
process.once("SIGTERM", async () => {
  await worker.stop()
  console.log("stopped")
})
`

const startProgram = async (cwd: string, server: Server): Promise<OrkProcess> => {
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const program = startOrk(["app.ts"], { cwd, env, command: [process.execPath] })
  await program.printed(/ready at http/)
  return program
}

it("a user's program contains a worker, which runs functions in the program", async () => {
  const cwd = folderWith({ "app.ts": PROGRAM })
  const server = await startServer([], { cwd, env: { ORK_GRACE: "1s" } })
  await expect(startProgram(cwd, { ...server, key: "wrong-wrong-wrong-wrong" })).rejects.toThrow(
    /Error: the server rejects this worker: /,
  )
  const program = await startProgram(cwd, server)
  await server.deploy({
    name: "app",
    tasks: {
      a: { executor: "resize", input: { width: 3 }, env: { COLOUR: "red" } },
      small: { executor: "resize", input: { width: -1 }, queue: "media" },
      polite: { executor: "polite", timeout: "300ms" },
      stubborn: { executor: "stubborn", timeout: "300ms" },
      elsewhere: { command: "echo elsewhere" },
    },
  })
  const run = await server.trigger("app")
  await server.reaches(run, "failed", "success")
  const { pid } = program.child
  expect(await outputs(server, run)).toEqual({
    a: ["success", 1, { width: 3, pid, colour: "red" }],
    small: ["failed", 1, null],
    polite: ["failed", 1, null],
    stubborn: ["failed", 1, null],
    elsewhere: ["success", 1, null],
  })
  const logOf = async (task: string): Promise<string> => (await server.call("GET", `/runs/${run}/tasks/${task}/logs`)).text
  expect(await logOf("small")).toMatch(/^resizing to -1\nError: too small\n {4}at \S+app\.ts:5:\d+/)
  expect(await logOf("small")).not.toContain("dist/")
  expect(await logOf("polite")).toContain("going")
  expect(await logOf("stubborn")).toContain("keeps running in its process")
  const job = (await server.call("POST", "/jobs", { name: "letter", queue: "emails", payload: { to: "Ada" } })).body[
    "id"
  ] as string
  await probe(async () => ((await server.call("GET", `/jobs/${job}`)).body["status"] === "COMPLETED" ? true : null))
  expect((await server.call("GET", `/jobs/${job}/result`)).text).toContain('{"sent":"Ada","by":"letter"}')
  const call = { name: "small", queue: "media", task: { executor: "resize" }, payload: { width: 7 } }
  const called = (await server.call("POST", "/jobs", call)).body["id"] as string
  await probe(async () => ((await server.call("GET", `/jobs/${called}`)).body["status"] === "COMPLETED" ? true : null))
  program.kill("SIGTERM")
  await program.printed(/stopped/)
  expect(await program.exit).toEqual({ code: 0, signal: null })
  expect((await server.call("GET", "/workers")).text).not.toContain('"name":"app","run_id":null,"alive":true')
})

it("a program that uses the exported types compiles", async () => {
  const cwd = folderWith({ "app.ts": PROGRAM, "bad.ts": 'import { register } from "ork"\nregister("x", 1)\n' })
  const flags = ["--noEmit", "--strict", "--target", "es2024", "--module", "nodenext", "--types", "node"]
  const types = ["--typeRoots", join(REPO, "node_modules/@types")]
  const check = (...files: string[]) =>
    promisify(execFile)(join(REPO, "node_modules/.bin/tsc"), [...flags, ...types, ...files], { cwd })
  await check("app.ts")
  await check(join(REPO, "examples/functions/worker.ts"), "--allowImportingTsExtensions")
  await expect(check("bad.ts")).rejects.toMatchObject({
    stdout: expect.stringMatching(/^bad\.ts\(2,15\): error TS2345/) as string,
  })
})
