import { expect, test } from "vitest"
import { commandLine } from "../../testing/command-line.ts"
import { containing, matching } from "../../../../test/support/matchers.ts"

const ETL = `
name: etl
params:
  n: { type: integer, default: 1 }
  tags: { type: array, required: false }
tasks:
  a: { command: echo hello }
  b: { depends_on: [a], command: echo done }
`

test("trigger converts params to their declared types and prints the id of the run", async () => {
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

test("a repeated idempotency key returns the same run", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  const first = (await world.ork("trigger", "etl", "--idempotency-key", "k")).stdout.trim()
  expect((await world.ork("trigger", "etl", "--idempotency-key", "k")).stdout).toMatch(
    new RegExp(`^${first} \\(created before with this idempotency key`),
  )
  await world.api.engine.waitForRun(first as never)
  const waited = await world.ork("trigger", "etl", "--idempotency-key", "k", "--wait")
  expect([waited.code, waited.stdout]).toEqual([0, containing("✓ etl success")])
})

test("trigger --wait prints one line per event and exits 0", async () => {
  await using world = await commandLine()
  await world.file("etl.yaml", ETL)
  await world.ork("deploy", "etl.yaml")
  const { code, stdout, stderr } = await world.ork("trigger", "etl", "--wait")
  expect([code, stderr]).toEqual([0, ""])
  const lines = stdout.split("\n").map((line) => line.replace(/^\d\d:\d\d:\d\d /, ""))
  expect(lines.slice(0, 6)).toEqual(["run running", "a running", "a success", "b running", "b success", "run success"])
  expect(stdout).toMatch(/✓ etl success in .*\n {2}critical path: a .* → b .*\n {2}tasks: 2 success\n$/)
})

test("trigger --wait exits 1 for a failed run and prints the tail of its log", async () => {
  await using world = await commandLine()
  await world.api.deploy("bad", { a: "echo first;echo oops;fail", b: { command: "true", depends_on: ["a"] } })
  const { code, stdout } = await world.ork("trigger", "bad", "--wait")
  expect(code).toBe(1)
  expect(stdout).toMatch(/✗ bad failed/)
  expect(stdout).toMatch(/✗ a, attempt 1: it failed\n {4}first\n {4}oops\n {2}full log: ork logs [0-9a-f-]{36} a\n/)
})

test("trigger --wait --json prints one event per line, then the run", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: { command: "echo x", foreach: [1, 2] } })
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
