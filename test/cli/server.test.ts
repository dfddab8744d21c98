// The command line against a real `ork serve`, in the folder of the server and from elsewhere.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { execFileSync, spawnSync } from "node:child_process"
import { dirname, join } from "node:path"
import { expect, test } from "vitest"
import { containing, having, including, matching } from "../support/matchers.ts"
import { startOrk } from "../support/ork-process.ts"
import { ork, ORK, temporaryFolder } from "../support/ork.ts"
import { probe, type Server, startServer } from "../support/server.ts"

const ETL = `
name: etl
params: { n: 2 }
schedule: "0 2 * * *"
tasks:
  a: { command: "echo hello \${{ params.n }}" }
  each: { depends_on: [a], foreach: [1, 2], command: echo item }
  wait: { depends_on: [a], command: "echo waiting; while [ ! -e $GO ]; do sleep 0.05; done; echo over", env: { GO: GOFILE } }
on_success:
  - command: echo hooked
`

/** A server in a folder of its own with `etl` deployed, whose task `wait` ends after a call of `go()`. */
const setup = async () => {
  const cwd = temporaryFolder()
  const server = await startServer([], { cwd })
  const go = join(cwd, "go")
  writeFileSync(join(cwd, "etl.yaml"), ETL.replace("GOFILE", go))
  const deployed = { code: 0, stdout: "etl.yaml: etl is deployed, version 1\n", stderr: "" }
  expect(await ork(["deploy", "etl.yaml"], { cwd })).toEqual(deployed)
  return { cwd, server, go: () => writeFileSync(go, "") }
}

const json = async (args: string[], cwd: string): Promise<unknown> => {
  const { code, stdout, stderr } = await ork([...args, "--json"], { cwd })
  if (code !== 0) throw new Error(`ork ${args.join(" ")}: exit ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

const running = (server: Server, id: string, task: string): Promise<boolean> =>
  probe(async () => ((await server.call("GET", `/runs/${id}/tasks/${task}`)).body["status"] === "running" ? true : null))

test("a workflow is deployed, triggered, watched and read without the address of the server", async () => {
  const { cwd, go } = await setup()
  go()
  const waited = await ork(["trigger", "etl", "--param", "n=7", "--wait"], { cwd })
  expect([waited.code, waited.stderr]).toEqual([0, ""])
  const lines = waited.stdout.split("\n").map((line) => line.replace(/^\d\d:\d\d:\d\d /, ""))
  expect(lines).toEqual(
    including(["run running", "a running", "a success", "each[1] success", "run success", "on_success.0 success"]),
  )
  expect(waited.stdout).toMatch(/✓ etl success in .*\n {2}critical path: a .*\n {2}tasks: 4 success\n$/)
  expect((await ork(["logs", "latest", "a"], { cwd })).stdout).toBe("hello 7\n")
  expect(await json(["show", "latest"], cwd)).toMatchObject({ params: { n: 7 }, task_list: including([having({ name: "a" })]) })
  expect(await json(["runs"], cwd)).toMatchObject([{ workflow: "etl", status: "success", trigger: "manual" }])
  expect((await ork(["schedules"], { cwd })).stdout).toMatch(/etl +0 2 \* \* \* .*( 02:00:00,?){1}/)
  expect(await json(["workers"], cwd)).toMatchObject([{ kind: "server", alive: true }])
})

test("without the server, read commands work and the others report that it is not running", async () => {
  const { cwd, server, go } = await setup()
  go()
  await ork(["trigger", "etl", "--wait"], { cwd })
  expect(JSON.parse(readFileSync(join(cwd, ".ork/server.json"), "utf8"))).toMatchObject({ url: server.url })
  server.process.kill("SIGTERM")
  expect(await server.process.exit).toEqual({ code: 0, signal: null })
  expect(existsSync(join(cwd, ".ork/server.json"))).toBe(false)
  expect((await ork(["runs"], { cwd })).stdout).toMatch(/✓ success/)
  expect((await ork(["logs", "latest", "a"], { cwd })).stdout).toBe("hello 2\n")
  expect((await ork(["explain", "latest", "a"], { cwd })).stdout).toBe("✓ a succeeded in attempt 1.\n")
  expect((await ork(["explain", "latest", "none"], { cwd })).code).toBe(2)
  const { code, stderr } = await ork(["trigger", "etl"], { cwd, env: { ORK_PORT: "9" } })
  expect([code, stderr]).toEqual([1, matching(/^ork: no server responds at http:\/\/127\.0\.0\.1:9: .*`ork serve`.*\n$/)])
})

test("the address that a killed server leaves behind is ignored", async () => {
  const { cwd, server, go } = await setup()
  go()
  await ork(["trigger", "etl", "--wait"], { cwd })
  server.process.kill("SIGKILL")
  await server.process.exit
  expect(existsSync(join(cwd, ".ork/server.json"))).toBe(true)
  expect((await ork(["runs"], { cwd })).stdout).toMatch(/✓ success/)
})

test("logs -f follows a task of the server until it finishes", async () => {
  const { cwd, server, go } = await setup()
  const id = (await ork(["trigger", "etl"], { cwd })).stdout.trim()
  await running(server, id, "wait")
  const follow = startOrk(["logs", id, "wait", "-f"], { cwd })
  await follow.printed(/waiting\n/)
  go()
  expect(await follow.exit).toEqual({ code: 0, signal: null })
  expect(follow.stdout).toBe("waiting\nover\n")
})

test("Ctrl-C does not cancel a run that is awaited", async () => {
  const { cwd, server, go } = await setup()
  const waiting = startOrk(["trigger", "etl", "--wait"], { cwd })
  await waiting.printed(/wait running/)
  waiting.kill("SIGINT")
  expect(await waiting.exit).toEqual({ code: 130, signal: null })
  const [, id] = /^ork: left run (\S+), which continues/m.exec(waiting.stderr)!
  expect((await server.call("GET", `/runs/${id}`)).body["status"]).toBe("running")
  go()
  await server.reaches(id!, "success")
})

test("Ctrl-C with --cancel-on-interrupt cancels the run and exits with 130", async () => {
  const { cwd } = await setup()
  const waiting = startOrk(["trigger", "etl", "--wait", "--json", "--cancel-on-interrupt"], { cwd })
  await waiting.printed(/"task":"wait".*"running"/)
  waiting.kill("SIGINT")
  expect(await waiting.exit).toEqual({ code: 130, signal: null })
  expect(JSON.parse(waiting.stdout.trimEnd().split("\n").at(-1)!)).toMatchObject({ status: "cancelled" })
})

test("an awaited run is shown without a gap across a restart of the server", async () => {
  const { cwd, server, go } = await setup()
  const waiting = startOrk(["trigger", "etl", "--wait", "--json"], { cwd })
  await waiting.printed(/"task":"wait".*"running"/)
  server.process.kill("SIGKILL")
  await server.process.exit
  go()
  await startServer(["--port", new URL(server.url).port], { cwd })
  expect(await waiting.exit).toEqual({ code: 0, signal: null })
  const lines = waiting.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { task?: string; status: string })
  expect(lines.at(-1)).toMatchObject({ workflow: "etl", status: "success" })
  expect(lines.filter(({ task, status }) => task === "wait" && status === "success")).toHaveLength(1)
  expect(lines.filter(({ task, status }) => task === "on_success.0" && status === "success")).toHaveLength(1)
})

test.skipIf(spawnSync("script", ["--version"]).status !== 0)(
  "on a terminal --wait draws the live view of `ork run`",
  async () => {
    const { cwd, go } = await setup()
    const command = ["script", "-qec", `stty cols 60 rows 20; exec ${ORK} trigger etl --wait`, "/dev/null"]
    const watching = startOrk([], { cwd, command, env: { TERM: "xterm" } })
    await watching.printed(/●\S* wait .*waiting/)
    go()
    expect((await watching.exit).code).toBe(0)
    expect(watching.stdout).toMatch(/✓\S* a /)
    expect(watching.stdout).toMatch(/\/4 tasks/)
    expect(watching.stdout.lastIndexOf("\u001b[?25h")).toBeGreaterThan(watching.stdout.lastIndexOf("\u001b[?25l"))
    expect(watching.stdout).toMatch(/✓\S* \S*etl\S* \S*success/)
  },
)

test("a run is explained, paused, resumed, cancelled and retried", async () => {
  const { cwd, server, go } = await setup()
  const id = (await ork(["trigger", "etl"], { cwd })).stdout.trim()
  await running(server, id, "wait")
  expect((await ork(["explain", id, "wait"], { cwd })).stdout).toMatch(/^● wait runs on /)
  expect((await ork(["pause", id], { cwd })).code).toBe(0)
  expect(await json(["resume", id], cwd)).toMatchObject({ paused: false })
  expect((await ork(["cancel", id], { cwd })).code).toBe(0)
  await server.reaches(id, "cancelled")
  expect((await ork(["retry", id, "--plan"], { cwd })).stdout).toMatch(/^again: .*wait.*\nkept: a/)
  go()
  expect((await ork(["retry", id], { cwd })).code).toBe(0)
  await server.reaches(id, "success")
  const again = await ork(["retry", id], { cwd })
  expect([again.code, again.stderr]).toEqual([1, matching(/^ork: [^\n]+\n$/)])
})

test("a schedule is paused by the name of its workflow, and a backfill creates the run of each tick once", async () => {
  const { cwd, go } = await setup()
  go()
  expect((await ork(["pause", "etl"], { cwd })).stdout).toBe("etl: its schedule is paused\n")
  expect(await json(["schedules"], cwd)).toMatchObject([{ workflow: "etl", paused: true, next_ticks: [] }])
  expect((await ork(["resume", "etl"], { cwd })).code).toBe(0)
  const range = ["--from", "2026-01-01", "--to", "2026-01-02"]
  const plan = await ork(["backfill", "etl", ...range, "--plan"], { cwd })
  expect(plan.stdout).toBe("2026-01-01T02:00:00.000Z\n2026-01-02T02:00:00.000Z\n2 ticks\n")
  const { runs } = (await json(["backfill", "etl", ...range], cwd)) as { runs: string[] }
  expect(runs).toHaveLength(2)
  expect((await ork(["backfill", "etl", ...range], { cwd })).stdout).toBe(`${runs.join("\n")}\n2 runs, one for each tick\n`)
})

test("a job is submitted, executed, and shown with its log and result", async () => {
  const { cwd } = await setup()
  const command = "echo from the job; echo '{\"rows\":3}'"
  const job = (await json(["jobs", "submit", "count", "--queue", "q", "--command", command], cwd)) as { id: string }
  await probe(async () => ((await json(["jobs", "show", job.id], cwd)) as { status: string }).status === "COMPLETED" || null)
  expect((await ork(["jobs", "show", job.id], { cwd })).stdout).toMatch(/output +\{"rows":3\}/)
  expect((await ork(["jobs", "logs", job.id, "-f"], { cwd })).stdout).toContain("from the job\n")
  expect(await json(["jobs", "--queue", "q", "--status", "completed"], cwd)).toMatchObject([{ id: job.id }])
  expect((await ork(["queues", "set", "q", "--concurrency", "2"], { cwd })).stdout).toMatch(/q +0 +0 +2 +no limit +open\n$/)
})

test("from another folder, the address and a key with the right scope are sufficient", async () => {
  const { cwd, server, go } = await setup()
  go()
  const elsewhere = temporaryFolder()
  const env = { ORK_URL: server.url }
  const none = await ork(["runs"], { cwd: elsewhere, env })
  expect([none.code, none.stderr]).toEqual([1, containing("ORK_API_KEY")])
  const key = (await ork(["keys", "create", "ci", "--scope", "trigger", "--scope", "read"], { cwd })).stdout.trim()
  const by = { ...env, ORK_API_KEY: key }
  expect((await ork(["trigger", "etl", "--wait"], { cwd: elsewhere, env: by })).code).toBe(0)
  const denied = await ork(["deploy", join(cwd, "etl.yaml")], { cwd: elsewhere, env: by })
  expect([denied.code, denied.stderr]).toEqual([1, matching(/^ork: .*scope author is required.*\n$/)])
  const doctor = await ork(["doctor"], { cwd: elsewhere, env: by })
  expect([doctor.code, doctor.stdout]).toEqual([0, matching(/^ok +key /m)])
})

test("migrate creates the database of a new folder", async () => {
  const cwd = temporaryFolder()
  expect(await ork(["migrate"], { cwd })).toEqual({ code: 0, stdout: "sqlite:.ork/ork.db is up to date\n", stderr: "" })
  expect((await ork(["runs"], { cwd })).stdout).toBe("no runs\n")
})

test("bash completes commands, options and the names of workflows", async () => {
  const { cwd } = await setup()
  const script = (await ork(["completion", "bash"], { cwd })).stdout
  const complete = (...words: string[]): string[] => {
    const typed = words.map((word) => `'${word}'`).join(" ")
    const code = `${script}\nCOMP_WORDS=(ork ${typed}); COMP_CWORD=${words.length}; _ork_complete; printf '%s\\n' "\${COMPREPLY[@]}"`
    const env = { PATH: `${dirname(ORK)}:${process.env.PATH}`, HOME: process.env.HOME }
    return execFileSync("bash", ["-c", code], { cwd, env, encoding: "utf8" }).trim().split("\n")
  }
  expect(complete("trig")).toEqual(["trigger"])
  expect(complete("trigger", "")).toEqual(["etl"])
  expect(complete("trigger", "etl", "--wa")).toEqual(["--wait"])
})

const has = (shell: string): boolean => spawnSync(shell, ["--version"]).status === 0

test.each(["zsh", "fish"])("the completion script for %s is valid", async (shell) => {
  const cwd = temporaryFolder()
  const script = (await ork(["completion", shell], { cwd })).stdout
  expect(script).toContain("ork __complete --")
  if (!has(shell)) return
  mkdirSync(join(cwd, "home"))
  writeFileSync(join(cwd, "script"), script)
  expect(spawnSync(shell, ["-n", join(cwd, "script")]).status).toBe(0)
})
