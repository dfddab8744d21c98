import { rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine, runMain } from "./testing/command-line.ts"
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
  const id = await world.api.ran("etl")
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
  await world.api.ran("etl")
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
  const id = await world.api.ran("bad")
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
  expect((await world.ork("backfill", "etl", ...range, "--plan")).stdout).toBe("2026-01-01T00:00:00.000Z\n1 tick\n")
  expect((await world.ork("backfill", "etl", ...range)).stdout).toBe("0 runs, one for each tick\n")
})

// -- jobs, queues, workers, keys ---------------------------------------------------------------------------------------------------

test("jobs are submitted, listed by filters, shown and cancelled", async () => {
  await using world = await commandLine()
  const submitted = await world.ork("jobs", "submit", "mail", "--queue", "out", "--payload", '{"to":"x"}', "--priority", "9")
  const [id, status] = submitted.stdout.trim().split(" ")
  expect(status).toBe("READY")
  const next = (await world.json("jobs", "submit", "next", "--queue", "out", "--after", id!)) as { id: string }
  expect(next).toMatchObject({ status: "PENDING", dependencies: [id] })
  await world.file("jobs.yaml", "- { name: x, queue: other }\n- { name: y, queue: other, task: { command: echo y } }\n")
  expect((await world.ork("jobs", "submit", "--file", "jobs.yaml")).stdout).toMatch(/^(\S+ READY\n){2}$/)
  expect((await world.ork("jobs", "--queue", "out", "--priority-min", "9")).stdout).toMatch(
    new RegExp(`^job .*\n${id} +READY +out +9 +0/3 +.* mail\n$`),
  )
  expect(await world.json("jobs", "--status", "pending")).toMatchObject([{ id: next.id }])
  expect(await world.json("jobs", "--limit", "1")).toHaveLength(1)
  expect((await world.ork("jobs", "show", id!)).stdout).toMatch(/^mail READY\n(.*\n)* {2}payload {3}\{"to":"x"\}\n$/)
  expect((await world.ork("jobs", "logs", id!)).stdout).toBe("")
  expect((await world.ork("jobs", "cancel", id!)).stdout).toBe(`job ${id} is cancelled\n`)
  expect((await world.ork("jobs", "cancel", id!)).code).toBe(1)
})

test("queues get limits, keep what is not named, and are listed", async () => {
  await using world = await commandLine()
  expect((await world.ork("queues")).stdout).toMatch(/^no queues/)
  await world.ork("queues", "set", "mail", "--concurrency", "4", "--rate", "10/1m")
  expect(await world.json("queues", "set", "mail", "--pause")).toMatchObject({
    concurrency: 4,
    rate_limit: { limit: 10, period_seconds: 60 },
    paused: true,
  })
  expect((await world.ork("queues")).stdout).toMatch(/mail +0 +0 +4 +10 per 1m00s +paused\n$/)
  expect(await world.json("queues", "set", "mail", "--resume", "--concurrency", "none", "--rate", "none")).toMatchObject({
    concurrency: null,
    rate_limit: null,
    paused: false,
  })
})

test("workers are listed", async () => {
  await using world = await commandLine()
  expect((await world.ork("workers")).stdout).toMatch(/^worker .*\n\S+ +server +alive .* test\n$/)
})

test("a key is printed once, works with its scope alone, and is out when it is revoked", async () => {
  await using world = await commandLine()
  const made = await world.ork("keys", "create", "ci", "--scope", "read")
  expect(made.stdout).toMatch(/^ork_\w+\n$/)
  expect(made.stderr).toMatch(/^ork: key \S+ \(read\); it is shown this once/)
  const key = ["--api-key", made.stdout.trim()]
  expect((await world.ork("runs", ...key)).code).toBe(0)
  const denied = await world.ork("keys", ...key)
  expect([denied.code, denied.stderr]).toEqual([1, containing("admin")])
  const [listed] = (await world.json("keys")) as { id: string; name: string }[]
  expect(listed).toMatchObject({ name: "ci", scopes: ["read"] })
  expect((await world.ork("keys")).stdout).not.toContain(made.stdout.trim())
  expect((await world.ork("keys", "revoke", listed!.id)).code).toBe(0)
  expect((await world.ork("runs", ...key)).code).toBe(1)
})

// -- which server ----------------------------------------------------------------------------------------------------------------

test("without a key, and with a wrong one, it says what to do", async () => {
  await using world = await commandLine()
  const wrong = await world.ork("workers", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stderr]).toEqual([1, matching(/^ork: .*--api-key or ORK_API_KEY.*\n$/)])
  await rm(join(world.cwd, ".ork/admin.key"))
  expect((await world.ork("workers")).stderr).toMatch(/ORK_API_KEY/)
  const by = { ORK_URL: world.url, ORK_API_KEY: "the-admin-key-of-tests" }
  expect((await runMain(["workers"], { cwd: world.cwd, env: by })).code).toBe(0)
})

test("the folder's key is not shown to a server elsewhere", async () => {
  await using world = await commandLine()
  const { serverAddress, loadServerConfig } = await import("./connect.ts")
  const context = { cwd: world.cwd, env: {} } as never
  const keyFor = async (url: string) => (await serverAddress(context, await loadServerConfig(context, { url }))).key
  expect(await keyFor("http://localhost:4000")).toBe("the-admin-key-of-tests")
  expect(await keyFor("https://ork.example.com")).toBeNull()
})

test("without a server, its commands say how to get one", async () => {
  await using world = await commandLine()
  await rm(join(world.cwd, ".ork/server.json"))
  const { code, stderr } = await runMain(["workers"], { cwd: world.cwd, env: { ORK_PORT: "9" } })
  expect([code, stderr]).toEqual([1, matching(/^ork: no server answers at http:\/\/127\.0\.0\.1:9: .*`ork serve`.*\n$/)])
})

test("doctor tells whether the server answers and takes the key", async () => {
  await using world = await commandLine()
  const checks = JSON.parse((await world.ork("doctor", "--json")).stdout) as { name: string; state: string; detail: string }[]
  const check = (name: string) => checks.find((each) => each.name === name)
  expect(check("server")).toEqual({ name: "server", state: "ok", detail: `${world.url}: version 1.2.3` })
  expect(check("key")).toMatchObject({ state: "ok" })
  const wrong = await world.ork("doctor", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stdout]).toEqual([1, matching(/^fail key /m)])
})

// -- completion ------------------------------------------------------------------------------------------------------------------

test.each([
  [["tri"], ["trigger"]],
  [
    ["trigger", ""],
    ["etl", "two"],
  ],
  [["trigger", "e"], ["etl"]],
  [["pause", "t"], ["two"]],
  [
    ["jobs", "s"],
    ["show", "submit"],
  ],
  [
    ["jobs", "--prio"],
    ["--priority-max", "--priority-min"],
  ],
  [
    ["jobs", "--status", "R"],
    ["READY", "RUNNING"],
  ],
  [["runs", "--workflow", "tw"], ["two"]],
  [["trigger", "etl", "--wa"], ["--wait"]],
  [["keys", "create", "x", "--scope", "a"], ["admin"]],
  [["completion", "z"], ["zsh"]],
  [["deploy", "x"], [":files"]],
  [["deploy", "x.yaml", ""], [":files"]],
  [["trigger", "etl", "--params-file", ""], [":files"]],
  [["nonsense", ""], []],
])("%j is completed by %j", async (words, expected) => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  await world.api.deploy("two", { a: "true" })
  const { code, stdout } = await world.ork("__complete", "--", ...words)
  expect([code, stdout.split("\n").filter((word) => word !== "")]).toEqual([0, expected])
})

test("runs are completed by id, and without a server there is still the latest", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  const id = await world.api.ran("etl")
  expect((await world.ork("__complete", "--", "show", "")).stdout).toBe(`${id}\nlatest\n`)
  await world.file(".ork/server.json", "{}")
  expect((await runMain(["__complete", "--", "show", ""], { cwd: world.cwd, env: { ORK_PORT: "9" } })).stdout).toBe("latest\n")
})

test("completion prints a script for each shell, and knows no other", async () => {
  await using world = await commandLine()
  for (const shell of ["bash", "zsh", "fish"])
    expect((await world.ork("completion", shell)).stdout).toContain("ork __complete --")
  expect((await world.ork("completion", "tcsh")).code).toBe(2)
})
