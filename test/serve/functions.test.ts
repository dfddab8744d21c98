// Functions with the built command: executed, deployed with their files, watched in a folder, cleaned up after a crash.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { expect, it } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { startOrk } from "../support/ork-process.ts"
import { probe, type Server, startServer } from "../support/server.ts"

const folderWith = (files: { [path: string]: string }): string => {
  const folder = temporaryFolder()
  for (const [path, text] of Object.entries(files)) put(folder, path, text)
  return folder
}

const put = (folder: string, path: string, text: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

const FILES = {
  "etl.yaml": `
name: etl
include: [lib/*]
tasks:
  count: { executor: node, file: tasks/count.ts, function: count }
  report: { executor: python, file: tasks/report.py, depends_on: [count] }
`,
  "tasks/count.ts": `
import { readFileSync } from "node:fs"
import { unit } from "../lib/unit.ts"
export const count = () => ({ rows: 3, unit, note: readFileSync("lib/note.txt", "utf8") })
`,
  "lib/unit.ts": 'export const unit: string = "rows"\n',
  "lib/note.txt": "from the bundle",
  "tasks/report.py": `
def main(input, ctx):
    print("reporting", input["count"]["rows"])
    return {"text": f"{input['count']['rows']} {input['count']['unit']}, {input['count']['note']}"}
`,
}

const outputOf = async (server: Server, run: string, task: string): Promise<unknown> =>
  (await server.call("GET", `/runs/${run}/tasks/${task}`)).body["output"]

const versionOf = async (server: Server, name: string): Promise<unknown> =>
  (await server.call("GET", `/workflows/${name}`)).body["version"]

/** Live processes that have this environment variable. */
const processesWith = (variable: string): string[] =>
  readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, "latin1").includes(variable)
    } catch {
      return false
    }
  })

it("ork deploy uploads the files, a changed function is a new version, and old runs keep theirs", async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  const cwd = folderWith(FILES)
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const files = ["lib/note.txt", "lib/unit.ts", "tasks/count.ts", "tasks/report.py"].map((path) => `  with ${path}\n`).join("")
  expect(await ork(["deploy", "."], { cwd, env })).toMatchObject({
    code: 0,
    stdout: `etl.yaml: etl is deployed, version 1\n${files}`,
  })
  const first = await server.trigger("etl")
  expect(await server.reaches(first, "success", "failed")).toMatchObject({ status: "success" })
  expect(await outputOf(server, first, "report")).toEqual({ text: "3 rows, from the bundle" })

  put(cwd, "lib/unit.ts", 'export const unit: string = "lines"\n')
  expect((await ork(["deploy", "etl.yaml"], { cwd, env })).stdout).toBe(`etl.yaml: etl is updated, version 2\n${files}`)
  expect((await ork(["deploy", "etl.yaml"], { cwd, env })).stdout).toBe(`etl.yaml: etl is unchanged, version 2\n${files}`)
  const second = await server.trigger("etl")
  await server.reaches(second, "success", "failed")
  expect(await outputOf(server, second, "report")).toEqual({ text: "3 lines, from the bundle" })
  await server.call("POST", `/runs/${first}/retry`, { from: "count" })
  await server.reaches(first, "success", "failed")
  expect(await outputOf(server, first, "report")).toEqual({ text: "3 rows, from the bundle" })
})

it("a remote worker downloads the files and runs the functions beside them", async () => {
  const server = await startServer(["--no-worker"], { cwd: temporaryFolder() })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const worker = startOrk(["worker", "--server", server.url], { cwd: temporaryFolder(), env })
  await worker.printed(/claims work from/)
  expect((await ork(["deploy", "."], { cwd: folderWith(FILES), env })).code).toBe(0)
  const run = await server.trigger("etl")
  expect(await server.reaches(run, "success", "failed")).toMatchObject({ status: "success" })
  expect(await outputOf(server, run, "report")).toEqual({ text: "3 rows, from the bundle" })
})

it("a missing file is reported before the upload, and the API accepts no file names", async () => {
  const server = await startServer([], { cwd: temporaryFolder() })
  const cwd = folderWith({ "a.yaml": "name: a\ntasks: { x: { executor: node, file: gone.ts } }\n" })
  const env = { ORK_URL: server.url, ORK_API_KEY: server.key }
  const { code, stderr } = await ork(["deploy", "a.yaml"], { cwd, env })
  expect([code, stderr]).toEqual([2, "ork: a.yaml:2:37: tasks.x.file: there is no file gone.ts beside the definition\n"])
  const posted = await server.call("POST", "/workflows", { name: "a", tasks: { x: { executor: "node", file: "gone.ts" } } })
  expect(posted.status).toBe(400)
  expect(posted.body.error!.message).toMatch(/tasks\.x\.file: a definition without a bundle has no files/)
  const hash = "0".repeat(64)
  const unknown = await server.call("POST", `/workflows?bundle=${hash}`, { name: "a", tasks: { x: { command: "true" } } })
  expect(unknown.body.error!.message).toMatch(/bundle: is not stored; send it first/)
})

it("--dir watches function files too", async () => {
  const cwd = folderWith(FILES)
  const server = await startServer(["--dir", "."], { cwd })
  expect(await versionOf(server, "etl")).toBe(1)
  put(cwd, "lib/unit.ts", 'export const unit: string = "lines"\n')
  await probe(async () => ((await versionOf(server, "etl")) === 2 ? true : null))
  const run = await server.trigger("etl")
  await server.reaches(run, "success", "failed")
  expect(await outputOf(server, run, "report")).toEqual({ text: "3 lines, from the bundle" })
})

it("a function that never ends is killed at its timeout, and the run continues", async () => {
  const cwd = folderWith({
    "spin.yaml": `
name: spin
tasks:
  spin: { executor: node, file: spin.js, timeout: 1s }
  after: { command: echo after, depends_on: [spin], run_when: all_failed }
`,
    "spin.js": "module.exports = () => { for (;;) {} }\n",
  })
  const { code, stdout } = await ork(["run", "spin.yaml", "--json"], { cwd })
  expect(code).toBe(1)
  expect(stdout).toContain("timed out after 1s")
  expect(JSON.parse(stdout.trim().split("\n").at(-1)!)).toMatchObject({ tasks: { success: 1, failed: 1 } })
})

it("after kill -9 of Ork, no worker process is left", async () => {
  const cwd = folderWith({
    "wait.yaml": `
name: wait
env: { MARK: "${Math.random()}" }
tasks:
  node: { executor: node, file: wait.js }
  python: { executor: python, file: wait.py }
`,
    "wait.js":
      'module.exports = () => { require("node:child_process").spawn("sleep", ["600"]); return new Promise(() => setTimeout(() => {}, 1e6)) }\n',
    "wait.py": "import subprocess\ndef main(input, ctx):\n    subprocess.run(['sleep', '600'])\n",
  })
  const mark = /MARK: "(.*)"/.exec(readFileSync(join(cwd, "wait.yaml"), "utf8"))![1]!
  const process = startOrk(["run", "wait.yaml"], { cwd })
  await probe(() => (processesWith(`MARK=${mark}`).length === 2 ? true : null))
  const owner = `-${process.child.pid}-`
  const workers = (): string[] => processesWith(`ORK_OWNER=`).filter((pid) => environment(pid).includes(owner))
  expect(workers()).toHaveLength(4)
  process.kill("SIGKILL")
  await process.exit
  await probe(() => (workers().length === 0 ? true : null))
})

it.each(["serve", "worker"] as const)("handlers of ork %s execute the jobs of their queue that have no task", async (who) => {
  const cwd = folderWith({
    "handlers.ts": `
import { FatalError } from "ork"
export default {
  mail: async (payload: { to: string }, ctx: { taskName: string; attempt: number }) => {
    if (payload.to === "nobody") throw new FatalError("there is nobody")
    return { sent: payload.to, by: ctx.taskName }
  },
}
`,
  })
  const server = await startServer(who === "serve" ? ["--handlers", "handlers.ts"] : ["--no-worker"], { cwd })
  if (who === "worker") {
    const worker = startOrk(["worker", "--handlers", "handlers.ts", "--server", server.url], { cwd })
    await worker.printed(/claims work from/)
  }
  const submit = async (job: object): Promise<string> => (await server.call("POST", "/jobs", job)).body["id"] as string
  const status = async (id: string): Promise<unknown> => (await server.call("GET", `/jobs/${id}`)).body["status"]
  const sent = await submit({ name: "letter", queue: "mail", payload: { to: "Ada" } })
  const failed = await submit({ name: "lost", queue: "mail", payload: { to: "nobody" } })
  const waiting = await submit({ name: "other", queue: "nobody_handles" })
  await probe(async () => ((await status(sent)) === "COMPLETED" && (await status(failed)) === "FAILED" ? true : null))
  expect((await server.call("GET", `/jobs/${sent}/result`)).text).toContain('{"sent":"Ada","by":"letter"}')
  expect((await server.call("GET", `/jobs/${failed}`)).body).toMatchObject({ attempt_count: 1 })
  expect(await status(waiting)).toBe("READY")
})

it.each([
  ["gone.ts", /--handlers: gone\.ts is not a file/],
  ["empty.ts", /--handlers: empty\.ts has no handlers/],
  ["broken.ts", /--handlers: broken\.ts cannot be loaded: .*no such thing/],
])("handlers in %s are rejected at startup", async (file, message) => {
  const cwd = folderWith({ "empty.ts": "export default {}\n", "broken.ts": 'throw new Error("no such thing")\n' })
  const { code, stderr } = await ork(["serve", "--port", "0", "--handlers", file], { cwd })
  expect(code).toBe(2)
  expect(stderr).toMatch(message)
})

const environment = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1")
  } catch {
    return ""
  }
}
