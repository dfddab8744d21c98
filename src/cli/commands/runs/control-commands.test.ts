import { expect, test } from "vitest"
import type { TestServer } from "../../../api/testing/setup.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { parseValue } from "../../../definition/parse.ts"
import { commandLine } from "../../testing/command-line.ts"
import { having, including, matching } from "../../../../test/support/matchers.ts"

test("a run is paused, resumed and cancelled; an impossible request exits 1", async () => {
  await using world = await commandLine()
  await world.api.deploy("slow", { a: "block" })
  const id = (await world.ork("trigger", "slow")).stdout.trim()
  await world.api.executor.blocked("a")
  expect((await world.ork("pause", id)).stdout).toBe(`run ${id} is paused: it starts no new tasks\n`)
  expect(await world.json("resume", "latest")).toMatchObject({ id, paused: false })
  expect((await world.ork("retry", id)).code).toBe(1)
  expect((await world.ork("cancel", id)).stdout).toMatch(`run ${id} is being cancelled`)
  await world.api.engine.waitForRun(id as never)
  const again = await world.ork("cancel", id)
  expect([again.code, again.stderr]).toEqual([1, matching(/^ork: run .* has already ended as cancelled\n$/)])
})

test("a failed run is retried completely, from a task, or for one instance; --plan changes nothing", async () => {
  await using world = await commandLine()
  await world.api.deploy("bad", {
    a: "true",
    b: { command: "fail", depends_on: ["a"], foreach: [1, 2] },
    c: { command: "true", depends_on: ["b"] },
  })
  const id = await world.api.runToEnd("bad")
  expect((await world.ork("retry", id, "--plan")).stdout).toBe("again: b[0], b[1], c\nkept: a\n")
  expect(await world.json("retry", id, "--from", "a", "--plan")).toEqual({ again: ["a", "b", "c"], kept: [] })
  expect((await world.ork("retry", id)).stdout).toMatch(`run ${id} is retried`)
  await world.api.engine.waitForRun(id as never)
  expect(await world.json("show", id)).toMatchObject({
    task_list: including([having({ name: "b", index: 0, attempt: 2 }), having({ name: "a", attempt: 1 })]),
  })
  const one = ["retry", id, "--task", "b", "--index", "1"]
  expect((await world.ork(...one, "--plan")).stdout).toBe("again: b[1], c\nkept: a\n")
  await world.ork(...one)
  await world.api.engine.waitForRun(id as never)
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
  expect((await world.ork("pause", "etl")).stdout).toBe("etl: its schedule is paused\n")
  expect(await world.json("schedules", "--workflow", "etl")).toMatchObject([{ paused: true, next_ticks: [] }])
  expect((await world.ork("resume", "etl")).stdout).toBe("etl: its schedule is resumed\n")
  const range = ["--from", "2026-01-01", "--to", "2026-01-01"]
  expect((await world.ork("backfill", "etl", ...range, "--plan")).stdout).toBe("2026-01-01T01:00:00.000Z\n1 tick\n")
  expect((await world.ork("backfill", "etl", ...range)).stdout).toMatch(/^[0-9a-f-]{36}\n1 run, one for each tick\n$/)
})

/** Runs a durable function with steps of these names. */
const runFunction = async ({ store, engine, executor }: TestServer, names: readonly string[]): Promise<RunId> => {
  const parsed = parseValue({ name: "order", tasks: { main: { command: "block" } } })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const { workflow, hash, source } = parsed
  const compiled = { ...workflow, nodes: workflow.nodes.map((node) => ({ ...node, durable: true as const })) }
  const version = await store.putWorkflow({ compiled, hash, source, deploy: true })
  const { run } = await engine.trigger({
    ...version,
    trigger: "manual",
    params: {},
    priority: null,
    logicalDate: null,
    idempotencyKey: null,
    workingDir: null,
  })
  await executor.blocked("main")
  const { row, attemptId } = (await store.getTask({ runId: run.id, name: "main", path: "" }))!
  const at = iso(Date.now())
  const step = { kind: "run", state: "success", failures: 0, output: null, error: null, details: null } as const
  const times = { startedAt: at, finishedAt: at }
  await store.recordSteps(
    names.map((name, position) => ({
      ...step,
      ...times,
      row,
      attemptId: attemptId!,
      name,
      occurrence: names.slice(0, position).filter((other) => other === name).length,
      position,
    })),
  )
  executor.release("main")
  await engine.waitForRun(run.id)
  return run.id
}

test("a durable function is retried from a step; --plan names the steps", async () => {
  await using world = await commandLine()
  const id = await runFunction(world.api, ["reserve", "charge", "charge", "ship"])
  const plan = async (...args: string[]) => await world.json("retry", id, "--plan", ...args)
  expect(await plan("--step", "charge", "--occurrence", "1")).toEqual({
    again: ["charge (number 2)", "ship"],
    kept: ["reserve", "charge"],
  })
  expect((await world.ork("retry", id, "--step", "charge")).stdout).toMatch("is retried")
  await world.api.executor.blocked("main")
  expect((await world.api.store.listSteps(id)).map(({ name }) => name)).toEqual(["reserve"])
  world.api.executor.release("main")
  await world.api.engine.waitForRun(id)
  const unknown = await world.ork("retry", id, "--step", "chrage")
  expect([unknown.code, unknown.stderr]).toEqual([1, matching(/has no step chrage; its steps are reserve\n$/)])
  expect((await world.ork("retry", id, "--step", "reserve", "--from", "main")).code).toBe(2)
  expect((await world.ork("retry", id, "--occurrence", "1")).code).toBe(2)
  await world.api.deploy("plain", { a: "true" })
  const plain = await world.ork("retry", await world.api.runToEnd("plain"), "--step", "a")
  expect([plain.code, plain.stderr]).toEqual([1, matching(/is not a durable function, and has no steps\n$/)])
})
