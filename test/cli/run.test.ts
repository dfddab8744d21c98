// `ork run` as a user sees it: params, plain and JSON progress, the summary, exit codes.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, test } from "vitest"
import { containing, having, matching } from "../support/matchers.ts"
import { startOrk } from "../support/ork-process.ts"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"

const setup = (text: string): string => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), text)
  return cwd
}

const PLAIN = `
name: plain
tasks:
  first:
    command: echo '{"files":["a","b"]}'
  each:
    depends_on: [first]
    foreach: first.files
    concurrency: 1
    command: echo "\${{ item }}"
  flaky:
    depends_on: [each]
    retry: { max_attempts: 2, backoff: fixed, base_delay: 50ms }
    command: for i in $(seq 25); do echo "line $i"; done; exit 3
  last:
    depends_on: [flaky]
    command: "true"
on_failure:
  - command: "true"
`

/** Replaces times, durations and ids, which vary. */
const masked = (text: string): string =>
  text
    .replace(/^\d\d:\d\d:\d\d/gm, "TIME")
    .replace(/\b\d+\.\ds\b/g, "TOOK")
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "RUN")

test("without a terminal, each status change is a line, and a summary follows", async () => {
  const { code, stdout, stderr } = await ork(["run", "flow.yaml"], { cwd: setup(PLAIN) })
  expect([code, stderr]).toEqual([1, ""])
  const tail = Array.from({ length: 20 }, (_, i) => `    line ${i + 6}`)
  expect(masked(stdout).split("\n")).toEqual([
    "TIME run running",
    "TIME first running",
    "TIME first success",
    "TIME each running (2 instances)",
    "TIME each[0] running",
    "TIME each[0] success",
    "TIME each[1] running",
    "TIME each[1] success",
    "TIME each success",
    "TIME flaky running",
    "TIME flaky waiting, retry in TOOK: exit code 3",
    "TIME flaky running (attempt 2)",
    "TIME flaky failed (attempt 2): exit code 3",
    "TIME last skipped: run_when all_success is not met: flaky failed",
    "TIME run failed: task flaky failed",
    "TIME on_failure.0 running",
    "TIME on_failure.0 success",
    "✗ plain failed in TOOK  RUN",
    "  task flaky failed",
    "  critical path: first TOOK → each TOOK → flaky TOOK",
    "  tasks: 3 success, 1 failed, 1 skipped",
    "",
    "✗ flaky, attempt 2: exit code 3",
    ...tail,
    "  full log: ork logs RUN flaky",
    "",
  ])
})

test("with --json, every event is a line and the last line is the run", async () => {
  const { code, events, run } = await orkRun(["flow.yaml"], { cwd: setup(PLAIN) })
  expect(code).toBe(1)
  for (const event of events) {
    expect(event).toMatchObject({ event: matching(/^(run|task)$/), run_id: run.id, status: matching(/./) })
    expect(event.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const known = ["event", "run_id", "task", "index", "path", "attempt", "status", "at", "error", "available_at", "total"]
    expect(Object.keys(event).filter((key) => !known.includes(key))).toEqual([])
  }
  expect(events).toContainEqual(having({ event: "task", task: "each", index: 1, path: "1", attempt: 1, status: "success" }))
  expect(events).toContainEqual(having({ task: "flaky", index: null, attempt: 2, status: "failed", error: "exit code 3" }))
  expect(events).toContainEqual(having({ event: "run", task: null, status: "failed" }))
  expect(run).toMatchObject({
    workflow: "plain",
    version: 1,
    status: "failed",
    paused: false,
    trigger: "manual",
    params: {},
    priority: 5,
    logical_date: null,
    error: "task flaky failed",
    tasks: { pending: 0, dispatched: 0, running: 0, success: 3, failed: 1, skipped: 1, cancelled: 0 },
  })
})

const PARAMS = `
name: params
params:
  who: { type: string, required: true }
  times: 1
  on: false
tasks:
  say:
    command: echo "\${{ params.who }} \${{ params.times + 1 }} \${{ params.on }}"
`

test("params come from the file and from the command line, which takes precedence", async () => {
  const cwd = setup(PARAMS)
  writeFileSync(join(cwd, "params.yaml"), "who: Ada\ntimes: 5\n")
  const { code, run } = await orkRun(["flow.yaml", "--params-file", "params.yaml", "-p", "times=7", "--param", "on=true"], {
    cwd,
  })
  expect([code, run]).toEqual([0, having({ params: { who: "Ada", times: 7, on: true } })])
  expect((await ork(["logs", "latest", "say"], { cwd })).stdout).toBe("Ada 8 true\n")
})

test("a param cannot inject shell code", async () => {
  const cwd = setup(PARAMS)
  await ork(["run", "flow.yaml", "--param", "who=$(touch pwned); touch pwned #"], { cwd })
  expect((await ork(["logs", "latest", "say"], { cwd })).stdout).toBe("$(touch pwned); touch pwned # 2 false\n")
  expect(existsSync(join(cwd, "pwned"))).toBe(false)
})

test("tasks run in the folder of their definition, and state is kept in the current folder", async () => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, "flows"))
  writeFileSync(join(cwd, "flows/flow.yaml"), "name: where\ntasks:\n  a: { command: pwd > here }\n")
  expect((await ork(["run", "flows/flow.yaml"], { cwd })).code).toBe(0)
  expect(readFileSync(join(cwd, "flows/here"), "utf8").trim()).toBe(join(cwd, "flows"))
  expect([existsSync(join(cwd, ".ork/ork.db")), existsSync(join(cwd, "flows/.ork"))]).toEqual([true, false])
})

test("environment variables set the location of the database and the objects", async () => {
  const cwd = setup("name: w\ntasks:\n  a: { command: echo hi }\n")
  const elsewhere = temporaryFolder()
  const env = {
    ORK_DATABASE_URL: `sqlite:${elsewhere}/x.db`,
    ORK_OBJECT_STORE: `file:${elsewhere}/objects`,
    ORK_DATA_DIR: elsewhere,
  }
  expect((await ork(["run", "flow.yaml"], { cwd, env })).code).toBe(0)
  expect([existsSync(join(elsewhere, "x.db")), existsSync(join(cwd, ".ork"))]).toEqual([true, false])
  expect((await ork(["logs", "latest", "a"], { cwd, env })).stdout).toBe("hi\n")
})

test.each([
  [
    { ORK_DATABASE_URL: "sqlite:file/x.db" },
    1,
    /^ork: the database file\/x\.db is not available: .*; point ORK_DATABASE_URL at/,
  ],
  [{ ORK_DATABASE_URL: "sqlite:." }, 1, /^ork: the database \. is not available: /],
  [
    { ORK_DATABASE_URL: "sqlite:file" },
    1,
    /^ork: the database file is not available: its file is damaged \(file is not a database\)/,
  ],
  [{ ORK_OBJECT_STORE: "file:file/objects" }, 2, /^ork: the object store in .*cannot be used: .*; point ORK_OBJECT_STORE at/],
])("unusable stores are reported in one line before anything runs: %j", async (env, exitCode, message) => {
  const cwd = setup("name: w\ntasks:\n  a: { command: touch witness }\n")
  writeFileSync(join(cwd, "file"), "this is no database, and no folder either")
  const { code, stdout, stderr } = await ork(["run", "flow.yaml"], { cwd, env })
  expect([code, stdout, stderr.trimEnd().split("\n")]).toEqual([exitCode, "", [matching(message)]])
  expect(existsSync(join(cwd, "witness"))).toBe(false)
})

test("a foreach over a number fails its task, names the reference, and does not affect other tasks", async () => {
  const cwd = setup(`
name: w
tasks:
  n:
    command: echo '{"count":3}'
  each:
    depends_on: [n]
    foreach: n.count
    command: "true"
  other:
    command: "true"
`)
  const { code, run, events } = await orkRun(["flow.yaml"], { cwd })
  expect([code, run.tasks["success"]]).toEqual([1, 2])
  const failed = events.find((event) => event.task === "each" && event.status === "failed")
  expect(failed).toMatchObject({ error: containing("n.count") })
})

test("a missing interpreter and an unwritable folder fail their task with the error of the system", async () => {
  const cwd = setup(`
name: w
tasks:
  missing: { command: [no-such-program, x] }
  locked: { command: echo x > /proc/file }
  nowhere: { command: "true", working_dir: no/such/folder }
  fine: { command: "true" }
`)
  const { code, run, events } = await orkRun(["flow.yaml"], { cwd })
  expect([code, run.status, run.tasks["success"], run.tasks["failed"]]).toEqual([1, "failed", 1, 3])
  const errorOf = (task: string) => events.find((event) => event.task === task && event.status === "failed")
  expect(errorOf("missing")).toMatchObject({ error: matching(/no-such-program.*(not found|no such file)/i) })
  expect(errorOf("nowhere")).toMatchObject({ error: matching(/no\/such\/folder does not exist/) })
  expect((await ork(["logs", "latest", "locked"], { cwd })).stdout).toMatch(/cannot create \/proc\/file/)
})

test("two runs at once in one folder both succeed", async () => {
  const cwd = setup("name: w\ntasks:\n  a: { parallel: 20, command: 'true' }\n  b: { depends_on: [a], command: 'true' }\n")
  const results = await Promise.all([1, 2, 3].map(() => orkRun(["flow.yaml"], { cwd })))
  expect(results.map(({ code, stderr, run }) => [code, stderr, run.tasks["success"]])).toEqual(Array(3).fill([0, "", 21]))
  const listed = JSON.parse((await ork(["runs", "--json"], { cwd })).stdout) as { id: string; status: string }[]
  expect(listed.map(({ id }) => id).toSorted()).toEqual(results.map(({ run }) => run.id).toSorted())
})

test("--concurrency limits the tasks that run at once", async () => {
  const task =
    "echo + >> w; while [ $(grep -c + w) -gt $(($(grep -c - w) + 2)) ]; do echo over >> over; exit 1; done; echo - >> w"
  const cwd = setup(`name: w\ntasks:\n  a:\n    parallel: 12\n    command: ${JSON.stringify(task)}\n`)
  const { code } = await orkRun(["flow.yaml", "--concurrency", "2"], { cwd })
  expect([code, existsSync(join(cwd, "over"))]).toEqual([0, false])
})

test("a closed output pipe does not stop the run and prints no stack trace", async () => {
  const cwd = setup("name: w\ntasks:\n  a: { command: 'true' }\n  b: { depends_on: [a], command: echo done > witness }\n")
  const process = startOrk(["run", "flow.yaml"], { cwd })
  process.child.stdout!.destroy()
  const { code } = await process.exit
  expect([code, process.stderr, existsSync(join(cwd, "witness"))]).toEqual([0, "", true])
})

test("a store that rejects the workflow ends the command with its error", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "a.yaml"), "name: a\ntasks: { a: { command: 'true' } }\n")
  writeFileSync(join(cwd, "b.yaml"), "name: b\ntasks: { a: { command: 'true' } }\n")
  expect((await ork(["run", "a.yaml"], { cwd })).code).toBe(0)
  const db = new DatabaseSync(join(cwd, ".ork/ork.db"))
  db.exec("CREATE TRIGGER no BEFORE INSERT ON versions BEGIN SELECT RAISE(ABORT, 'no more of them'); END")
  db.close()
  const { code, stderr } = await ork(["run", "b.yaml"], { cwd })
  expect([code, stderr]).toEqual([1, matching(/no more of them/)])
})

test("a log ends with a note at the size that max_log sets, for commands and functions", async () => {
  const cwd = setup(`
name: loud
tasks:
  process: { command: yes | head -c 3000000 }
  call: { executor: node, file: loud.mjs, function: loud }
`)
  writeFileSync(join(cwd, "ork.yaml"), "max_log: 1Mi\n")
  writeFileSync(join(cwd, "loud.mjs"), 'export const loud = () => console.log("y\\n".repeat(1_500_000))\n')
  expect(await orkRun(["flow.yaml"], { cwd })).toMatchObject({ code: 0 })
  for (const task of ["process", "call"]) {
    const { stdout } = await ork(["logs", "latest", task], { cwd })
    expect(stdout).toContain("ork: the log is longer than 1 MiB: the rest is dropped")
    expect(stdout.length).toBeLessThan(2_200_000)
  }
})

test("an unknown variable of Ork is reported, with the nearest known one", async () => {
  const cwd = setup("name: w\ntasks: { a: { command: 'true' } }\n")
  const { code, stderr } = await ork(["run", "flow.yaml"], { cwd, env: { ORK_CONCURENCY: "3", ORK_SECRET_X: "y" } })
  expect([code, stderr]).toEqual([0, "ork: Ork does not know the variable ORK_CONCURENCY; did you mean ORK_CONCURRENCY?\n"])
})
