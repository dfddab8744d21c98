import { rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine } from "./testing/command-line.ts"
import { containing, having, including, matching } from "../../test/support/matchers.ts"

const ETL = `
name: etl
params:
  n: { type: integer, default: 1 }
  tags: { type: array, required: false }
tasks:
  a: { command: say hello }
  b: { depends_on: [a], command: say done }
`

// -- deploy --------------------------------------------------------------------------------------------------------------------

test("deploy tells what is new, what is another version and what is the same", async () => {
  await using world = await commandLine()
  await world.file("etl.yaml", ETL)
  await world.file("two.json", JSON.stringify({ name: "two", tasks: { a: { command: "true" } } }))
  expect(await world.ork("deploy", "etl.yaml", "two.json")).toEqual({
    code: 0,
    stdout: "etl.yaml: etl is deployed, version 1\ntwo.json: two is deployed, version 1\n",
    stderr: "",
  })
  await world.file("etl.yaml", `${ETL}  c: { command: "true" }\n`)
  expect((await world.ork("deploy", "etl.yaml", "two.json")).stdout).toBe(
    "etl.yaml: etl is deployed anew, version 2\ntwo.json: two is the same as before, version 1\n",
  )
  expect(await world.json("deploy", "etl.yaml")).toMatchObject([{ name: "etl", version: 2 }])
})

test("deploy lists the problems of every file with their places, and deploys none", async () => {
  await using world = await commandLine()
  await world.file("good.yaml", ETL)
  await world.file("bad.yaml", "name: w\ntasks:\n  a: { comand: x }\n  b: { command: y, depends_on: [c] }\n")
  await world.file("code.yaml", "name: c\ntasks:\n  a: { executor: node, file: a.ts, function: f }\n")
  const { code, stdout, stderr } = await world.ork("deploy", "good.yaml", "bad.yaml", "code.yaml")
  expect([code, stdout]).toEqual([2, ""])
  expect(stderr).toMatch(/^ork: bad\.yaml:3:8: tasks\.a\.comand: .*did you mean "command"/m)
  expect(stderr).toMatch(/^ork: bad\.yaml:4:\d+: tasks\.b\.depends_on/m)
  expect(stderr).toMatch(/^ork: code\.yaml: tasks\.a\.file: there is no file a\.ts beside the definition/m)
  expect(await world.json("runs")).toEqual([])
  expect((await world.api.call("GET", "/workflows")).body["items"]).toEqual([])
})

test("deploy of a file that is not there is refused", async () => {
  await using world = await commandLine()
  expect(await world.ork("deploy", "none.yaml")).toEqual({
    code: 2,
    stdout: "",
    stderr: "ork: none.yaml: there is no such file\n",
  })
})

// -- trigger -------------------------------------------------------------------------------------------------------------------

test("trigger reads params by their type and prints the id of the run", async () => {
  await using world = await commandLine()
  await world.file("etl.yaml", ETL)
  await world.ork("deploy", "etl.yaml")
  const { code, stdout } = await world.ork("trigger", "etl", "-p", "n=5", "-p", "tags=[1,2]", "--priority", "9")
  expect([code, stdout]).toEqual([0, matching(/^[0-9a-f-]{36}\n$/)])
  const run = await world.json("show", stdout.trim())
  expect(run).toMatchObject({ id: stdout.trim(), params: { n: 5, tags: [1, 2] }, priority: 9 })
  await world.file("p.yaml", "n: 7\n")
  expect(await world.json("trigger", "etl", "--params-file", "p.yaml")).toMatchObject({ params: { n: 7, tags: null } })
})

test("the same idempotency key gives the same run", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  const first = (await world.ork("trigger", "etl", "--idempotency-key", "k")).stdout.trim()
  expect((await world.ork("trigger", "etl", "--idempotency-key", "k")).stdout).toMatch(
    new RegExp(`^${first} \\(the run that this key had made before`),
  )
  await world.api.engine.ended(first as never)
  const waited = await world.ork("trigger", "etl", "--idempotency-key", "k", "--wait")
  expect([waited.code, waited.stdout]).toEqual([0, containing("✓ etl success")])
})

test("trigger --wait tells the run line by line and exits 0", async () => {
  await using world = await commandLine()
  await world.file("etl.yaml", ETL)
  await world.ork("deploy", "etl.yaml")
  const { code, stdout, stderr } = await world.ork("trigger", "etl", "--wait")
  expect([code, stderr]).toEqual([0, ""])
  const told = stdout.split("\n").map((line) => line.replace(/^\d\d:\d\d:\d\d /, ""))
  expect(told.slice(0, 6)).toEqual(["run running", "a running", "a success", "b running", "b success", "run success"])
  expect(stdout).toMatch(/✓ etl success in .*\n {2}critical path: a .* → b .*\n {2}tasks: 2 success\n$/)
})

test("trigger --wait of a run that fails exits 1 and shows the end of its log", async () => {
  await using world = await commandLine()
  await world.api.deploy("bad", { a: "say first;say oops;fail", b: { command: "true", depends_on: ["a"] } })
  const { code, stdout } = await world.ork("trigger", "bad", "--wait")
  expect(code).toBe(1)
  expect(stdout).toMatch(/✗ bad failed/)
  expect(stdout).toMatch(/✗ a, attempt 1: it failed\n {4}first\n {4}oops\n {2}whole log: ork logs [0-9a-f-]{36} a\n/)
})

test("trigger --wait --json prints an event per line, last the run", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: { command: "say x", foreach: [1, 2] } })
  const { code, stdout } = await world.ork("trigger", "etl", "--wait", "--json")
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { event?: string })
  expect(code).toBe(0)
  expect(lines.at(-1)).toMatchObject({ workflow: "etl", status: "success", tasks: { success: 2 } })
  expect(lines.slice(0, -1).every(({ event }) => event === "run" || event === "task")).toBe(true)
})

test("trigger --wait waits for the hooks of a run", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" }, { on_success: [{ command: "block" }] })
  const waited = world.ork("trigger", "etl", "--wait")
  await world.api.executor.blocked("on_success.0")
  expect(await world.json("runs")).toMatchObject([{ status: "success" }])
  world.api.executor.release("on_success.0")
  const { code, stdout } = await waited
  expect([code, stdout]).toEqual([0, containing("on_success.0 success\n✓ etl success")])
})

test.each([
  [["trigger", "elt"], "there is no workflow elt; did you mean etl?"],
  [["trigger", "no such"], "there is no workflow no such; there are etl"],
  [["trigger", "etl", "-p", "n=x"], "params.n: must be a whole number"],
  [["trigger", "etl", "-p", "m=1"], "params.m: there is no such param"],
  [["trigger", "etl", "--priority", "11"], '--priority: "11" is not a whole number from 1 to 10'],
  [["trigger", "etl", "--logical-date", "soon"], "logical_date: must be a day"],
  [["trigger", "etl", "--cancel-on-interrupt"], "--cancel-on-interrupt goes with --wait"],
  [["show", "ffff"], "there is no run ffff"],
  [["show", "01a1dd3a-3d9d-766c-92dd-29bd077c39b0"], "there is no run 01a1dd3a"],
  [["runs", "--trigger", "manaul"], '--trigger: there is no trigger "manaul"; did you mean manual?'],
  [["runs", "--created-after", "soon"], '--created-after: "soon" is not a day'],
  [["logs", "latest", "a"], "there is no run yet"],
  [["retry", "latest", "--from", "a", "--task", "b"], "give one of them"],
  [["retry", "latest", "--index", "1"], "name it"],
  [["retry", "latest", "--task", "a", "--plan"], "leave out --task"],
  [["pause", "elt"], "did you mean etl?"],
  [["backfill", "etl", "--from", "x", "--to", "2026-01-01"], "from: must be a day"],
  [["jobs", "submit"], "a job needs a name and a queue"],
  [["jobs", "submit", "x", "--queue", "q", "--payload", "{"], "--payload: is not JSON"],
  [["jobs", "submit", "x", "--queue", "q", "--after", "y"], "dependencies.0: must be a UUID"],
  [["jobs", "--status", "faild"], "did you mean FAILED?"],
  [["jobs", "--limit", "0"], '--limit: "0" is not a whole number from 1 to 1000'],
  [["jobs", "show", "x"], "job_id: must be a UUID"],
  [["queues", "set", "q"], "say what to set"],
  [["queues", "set", "q", "--rate", "10"], '--rate: "10" is not none'],
  [["queues", "set", "q", "--pause", "--resume"], "contradict"],
  [["keys", "create", "x"], "say what the key may do"],
  [["keys", "create", "x", "--scope", "reed"], "did you mean read?"],
  [["keys", "revoke", "01a1dd3a-3d9d-766c-92dd-29bd077c39b0"], "there is no key"],
])("%j is refused with exit code 2", async (args, message) => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" }, { params: { n: 1 } })
  const { code, stdout, stderr } = await world.ork(...args)
  expect([code, stdout, stderr]).toEqual([2, "", containing(message)])
  expect(stderr).toMatch(/^(ork: [^\n]+\n)+$/)
})

// -- reading -------------------------------------------------------------------------------------------------------------------

test("runs, show and logs ask the server", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "say one;say two", each: { command: "say x", foreach: [1, 2] } })
  const id = await world.api.runToEnd("etl")
  expect((await world.ork("runs")).stdout).toMatch(new RegExp(`✓ success +${id} +etl .* 3/3\n`))
  expect(await world.json("runs", "--status", "failed")).toEqual([])
  expect(await world.json("runs", "--trigger", "manual", "--created-after", "2020-01-01")).toMatchObject([{ id }])
  expect(await world.json("runs", "--trigger", "schedule")).toEqual([])
  expect(await world.json("runs", "--created-before", "2020-01-01")).toEqual([])
  expect((await world.ork("show", id.slice(0, 30))).stdout).toMatch(/✓ a +success/)
  expect(await world.json("show", "latest")).toMatchObject({ id, task_list: including([having({ name: "a" })]) })
  expect((await world.ork("logs", "latest", "a")).stdout).toBe("one\ntwo\n")
  expect((await world.ork("logs", "latest", "each", "--index", "1")).stdout).toBe("x\n")
  const [line] = (await world.ork("logs", id, "a", "--json")).stdout.split("\n")
  expect(JSON.parse(line!)).toEqual({ at: matching(/Z$/), stream: "stdout", line: "one" })
  expect((await world.ork("logs", id, "each")).stderr).toMatch(/several instances: say which with --index N/)
  expect((await world.ork("logs", id, "eech")).stderr).toMatch(/did you mean each\?/)
  expect((await world.ork("logs", id, "a", "--attempt", "2")).code).toBe(2)
})

test("logs -f follows until the task ends", async () => {
  await using world = await commandLine()
  await world.api.deploy("slow", { a: "say before;block;say after" })
  const { stdout: id } = await world.ork("trigger", "slow")
  await world.api.executor.blocked("a")
  const followed = world.ork("logs", id.trim(), "a", "-f")
  world.api.executor.release("a")
  expect(await followed).toEqual({ code: 0, stdout: "before\nafter\n", stderr: "" })
})

test("where the folder's server is dead, reading commands go to the store; where one was named, they say so", async () => {
  await using world = await commandLine()
  await writeFile(join(world.cwd, ".ork/server.json"), JSON.stringify({ url: world.url, pid: 2 ** 30 }))
  expect((await world.ork("runs")).stderr).toMatch(/there are no runs in sqlite:/)
  await rm(join(world.cwd, ".ork/server.json"))
  expect((await world.ork("runs", "--url", world.url)).stdout).toBe("no runs\n")
  expect((await world.ork("runs", "--url", world.url, "--database-url", "sqlite:x.db")).stdout).toBe("no runs\n")
})

test("explain tells a sentence for each task", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  await world.api.runToEnd("etl")
  expect((await world.ork("explain", "latest", "a")).stdout).toBe("· a waits for its upstream\n")
  expect(await world.json("explain", "latest")).toMatchObject([{ task: "a", sentence: "a waits for its upstream" }])
})

// -- steering --------------------------------------------------------------------------------------------------------------------

test("a run is paused, resumed, cancelled, and what cannot be done exits 1", async () => {
  await using world = await commandLine()
  await world.api.deploy("slow", { a: "block" })
  const id = (await world.ork("trigger", "slow")).stdout.trim()
  await world.api.executor.blocked("a")
  expect((await world.ork("pause", id)).stdout).toBe(`run ${id} is paused: nothing new of it starts\n`)
  expect(await world.json("resume", "latest")).toMatchObject({ id, paused: false })
  expect((await world.ork("retry", id)).code).toBe(1)
  expect((await world.ork("cancel", id)).stdout).toMatch(`run ${id} is being cancelled`)
  await world.api.engine.ended(id as never)
  const again = await world.ork("cancel", id)
  expect([again.code, again.stderr]).toEqual([1, matching(/^ork: run .* has already ended as cancelled\n$/)])
})

test("a failed run is retried, from a task or one instance of it, and planned before", async () => {
  await using world = await commandLine()
  await world.api.deploy("bad", {
    a: "true",
    b: { command: "fail", depends_on: ["a"], foreach: [1, 2] },
    c: { command: "true", depends_on: ["b"] },
  })
  const id = await world.api.runToEnd("bad")
  expect((await world.ork("retry", id, "--plan")).stdout).toBe("again: b, c\nkept: a\n")
  expect(await world.json("retry", id, "--from", "a", "--plan")).toEqual({ again: ["a", "b", "c"], kept: [] })
  expect((await world.ork("retry", id)).stdout).toMatch(`run ${id} goes on`)
  await world.api.engine.ended(id as never)
  expect(await world.json("show", id)).toMatchObject({
    task_list: including([having({ name: "b", index: 0, attempt: 2 }), having({ name: "a", attempt: 1 })]),
  })
  await world.ork("retry", id, "--task", "b", "--index", "1")
  await world.api.engine.ended(id as never)
  expect(await world.json("show", id)).toMatchObject({
    task_list: including([having({ name: "b", index: 0, attempt: 2 }), having({ name: "b", index: 1, attempt: 3 })]),
  })
})

test("a workflow's schedule is paused and resumed by its name, listed with its ticks, and backfilled", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" }, { schedule: { cron: "0 2 * * *", timezone: "Europe/Berlin" } })
  expect((await world.ork("schedules")).stdout).toMatch(
    /^workflow .*\netl +0 2 \* \* \* +Europe\/Berlin +open +(\S+ \d\d:00:00,? ?){5}\n$/,
  )
  await world.api.deploy("often", { a: "true" }, { schedule: "@hourly" })
  expect((await world.ork("schedules", "--workflow", "often")).stdout).toMatch(/open +\S{10} \d\d:00:00, .*\d\d:00:00\n$/)
  expect((await world.ork("pause", "etl")).stdout).toBe("etl: its schedule rests\n")
  expect(await world.json("schedules", "--workflow", "etl")).toMatchObject([{ paused: true, next_ticks: [] }])
  expect((await world.ork("resume", "etl")).stdout).toBe("etl: its schedule goes on\n")
  const range = ["--from", "2026-01-01", "--to", "2026-01-02"]
  expect((await world.ork("backfill", "etl", ...range, "--plan")).stdout).toBe("2026-01-01T01:00:00.000Z\n1 tick\n")
  expect((await world.ork("backfill", "etl", ...range)).stdout).toMatch(/^[0-9a-f-]{36}\n1 run, one for each tick\n$/)
})
