// What must not compile: the type check of the repository fails if one of these lines does.

import { expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import type { OrkClient } from "./client.ts"
import { graph, Ork, type Orkable, signal, task, txTask, workflow, yaml } from "./index.ts"
import { type TestOrk, testOrk } from "./test.ts"

declare module "./graph/yaml-workflows.ts" {
  interface YamlWorkflows {
    "nightly-of-types.yaml": { params: { day: string; n?: number } }
  }
}

const double = task("double", { input: z.object({ n: z.number() }) }, ({ n }) => ({ n: 2 * n }))
const paid = signal("paid", z.object({ cents: z.int() }))
const order = workflow("order", { input: z.object({ id: z.string() }) }, ({ id }) => ({ shipped: true as const, id }))
const discover = task("discover", { input: z.object({ day: z.string() }) }, () => ({
  files: [{ path: "a", rows: 1 }],
  isEmpty: false,
}))
const load = task("load", { input: z.object({ path: z.string() }) }, ({ path }) => ({ table: path }))
const etl = graph("etl", { params: z.object({ day: z.string(), n: z.number().optional() }) }, (g) =>
  g.task("discover", discover, { day: g.params.day }),
)

/** Each rule holds for the engine, the client of a server and the test kit alike. */
const ofEveryOrk = async (ork: Orkable): Promise<void> => {
  // @ts-expect-error n is a number
  await ork.enqueue(double, { n: "1" })
  // @ts-expect-error n is missing
  await ork.enqueue(double, {})
  // @ts-expect-error there is no such field
  await ork.enqueue(double, { n: 1, m: 2 })
  // @ts-expect-error a name is not a definition: nothing is known about its input
  await ork.enqueue("double", { n: 1 })
  // @ts-expect-error only task, txTask, workflow, graph and yaml declare what can be enqueued
  await ork.enqueue({ name: "double" }, { n: 1 })
  // @ts-expect-error a signal is sent, not enqueued
  await ork.enqueue(paid, { cents: 1 })
  // @ts-expect-error a duration has a unit
  await ork.enqueue(double, { n: 1 }, { delay: "5 minutes" })
  // @ts-expect-error there is no such conflict rule
  await ork.enqueue(double, { n: 1 }, { key: "k", onConflict: "ignore" })
  // @ts-expect-error each input needs n
  await ork.enqueueAll(double, [{ n: 1 }, {}])
  // @ts-expect-error jobs that are created together cannot share a key
  await ork.enqueueAll(double, [{ n: 1 }], { key: "k" })
  // @ts-expect-error workflows start one by one
  await ork.enqueueAll(order, [{ id: "1" }])
  // @ts-expect-error the input of a schedule is checked, too
  await ork.schedule("daily", "0 8 * * *", double, { n: "1" })
  // @ts-expect-error there is no such overlap rule
  await ork.schedule("daily", "0 8 * * *", double, { n: 1 }, { overlap: "never" })
  // @ts-expect-error cents is a number
  await ork.signal("id", paid, { cents: "100" })
  // @ts-expect-error there is no such field in the payload
  await ork.signal("id", paid, { cents: 100, euros: 1 })
  // @ts-expect-error a signal is named by its definition
  await ork.signal("id", "paid", { cents: 100 })
  // @ts-expect-error there is no such status
  ork.list({ def: double, status: ["done"] })

  const job = await ork.enqueue(double, { n: 1 })
  expectTypeOf(await job.result()).toEqualTypeOf<{ n: number }>()
  // @ts-expect-error the result has no m
  expect((await job.result()).m).toBeUndefined()
  // @ts-expect-error the status is read only
  job.status = "failed"
  expectTypeOf(await (await ork.enqueue(order, { id: "1" })).result()).toEqualTypeOf<{ shipped: true; id: string }>()
}

const ofDefinitions = async (): Promise<void> => {
  // @ts-expect-error a Map is not JSON
  task("map", {}, () => new Map([[1, 2]]))
  // @ts-expect-error a Date is not JSON, also inside of an object
  task("date", {}, () => ({ at: new Date() }))
  // @ts-expect-error a function is not JSON
  workflow("function", {}, () => () => 1)
  // @ts-expect-error n is a number
  task("text", { input: z.object({ n: z.number() }) }, ({ n }) => void n.length)
  // @ts-expect-error without a schema nothing is known about the input
  task("unknown", {}, (input) => void input.n)
  // @ts-expect-error the group is made from the input
  task("grouped", { input: z.object({ n: z.number() }), group: ({ tenant }) => String(tenant) }, () => 1)
  // @ts-expect-error a rate is a number of starts in a period
  task("rated", { limit: { rate: 100 } }, () => 1)
  // @ts-expect-error a task has no transaction
  task("no-tx", {}, (_, { tx }) => void tx)
  // @ts-expect-error a Date is not JSON
  txTask("tx-date", {}, () => new Date())
  // @ts-expect-error a signal does not run
  await Ork.open({ run: [paid] })
  // @ts-expect-error a program says what it runs, if only nothing
  await Ork.open({ database: "sqlite:app.db" })
}

const ofSteps = (): void => {
  workflow("steps", {}, async (_, step) => {
    // @ts-expect-error n is a number
    await step.call(double, { n: "1" })
    // @ts-expect-error there is no such field
    await step.call(double, { n: 1, m: 2 })
    // @ts-expect-error a name is not a definition
    await step.call("double", { n: 1 })
    // @ts-expect-error a graph is no child of a function
    await step.call(etl, { day: "" })
    // @ts-expect-error every step has a name
    await step.run(() => 1)
    // @ts-expect-error a sleep has a name and a duration
    await step.sleep("14d")
    // @ts-expect-error the code of a step has no transaction: use step.tx
    await step.run("no-tx", ({ tx }) => void tx)
    // @ts-expect-error a transaction runs queries, as a client of pg does
    await step.tx("exec", (tx) => void tx.exec)
    const payment = await step.waitFor(paid, { timeout: "3d" })
    // @ts-expect-error there is no payment at the timeout
    expect(payment.cents).toBe(1)
    expectTypeOf(payment).toEqualTypeOf<{ cents: number } | null>()
    expectTypeOf(await step.call(double, { n: 1 })).toEqualTypeOf<{ n: number }>()
    expectTypeOf(await step.run("text", () => "a")).toEqualTypeOf<string>()
  })
}

const ofTransactions = async (ork: Ork, client: OrkClient): Promise<void> => {
  const tx = { query: () => Promise.resolve({ rows: [] }) }
  await ork.enqueue(double, { n: 1 }, { tx, key: "k", onConflict: "error", delay: "1s" })
  // @ts-expect-error a job in a transaction cannot replace another one
  await ork.enqueue(double, { n: 1 }, { tx, key: "k", onConflict: "replace" })
  // @ts-expect-error a workflow cannot start in a transaction
  await ork.enqueue(order, { id: "1" }, { tx })
  // @ts-expect-error a client of a server has no transaction
  await client.enqueue(double, { n: 1 }, { tx })
  // @ts-expect-error the name of a table is not a transaction
  await ork.enqueue(double, { n: 1 }, { tx: "ledger" })
  // @ts-expect-error a pool is not a transaction: it has no query
  await ork.enqueue(double, { n: 1 }, { tx: { connect: () => tx } })
}

const ofGraphs = async (ork: Orkable): Promise<void> => {
  graph("types", { params: z.object({ day: z.string(), n: z.number() }) }, (g) => {
    const found = g.task("a", discover, { day: g.params.day })
    // @ts-expect-error there is no such param
    expect(g.params.dya).toBeDefined()
    // @ts-expect-error the input needs a text
    g.task("b", discover, { day: g.params.n })
    // @ts-expect-error the input needs day
    g.task("c", discover, {})
    // @ts-expect-error there is no such field
    g.task("d", discover, { day: g.params.day, month: 1 })
    // @ts-expect-error a file has no pth
    g.each("e", found.files, load, (file) => ({ path: file.pth }))
    // @ts-expect-error isEmpty is not a list
    g.each("f", found.isEmpty, load, () => ({ path: "" }))
    // @ts-expect-error a condition is true or false
    g.task("g", discover, { day: "" }, { if: g.params.day })
    // @ts-expect-error a task runs after tasks, not after names
    g.task("h", discover, { day: "" }, { after: ["a"] })
    // @ts-expect-error a name is not a definition
    g.task("i", "discover", { day: "" })
    // @ts-expect-error a reference has no value while the graph is declared
    expect(g.params.n + 1).toBeDefined()
    expectTypeOf(found.files[0]!.rows).toExtend<{ toString(): string }>()
  })
  // @ts-expect-error a day is a text
  await ork.enqueue(etl, { day: 1 })
  // @ts-expect-error day is required
  await ork.enqueue(etl, { n: 1 })
  expectTypeOf((await (await ork.enqueue(etl, { day: "" })).result()).files[0]!.rows).toEqualTypeOf<number>()
}

/** The params of a file are in the declarations that `ork types` writes. */
const ofFiles = async (ork: Orkable): Promise<void> => {
  const nightly = yaml("nightly-of-types.yaml")
  await ork.enqueue(nightly, { day: "2026-01-31" })
  // @ts-expect-error day is required
  await ork.enqueue(nightly, {})
  // @ts-expect-error day is a text
  await ork.enqueue(nightly, { day: 31 })
  // @ts-expect-error there is no such param
  await ork.enqueue(nightly, { day: "2026-01-31", month: 1 })
  // @ts-expect-error the program has given the params another type
  await ork.enqueue(yaml<{ region: string }>("nightly-of-types.yaml"), { day: "2026-01-31" })
}

const ofTests = async (ork: TestOrk): Promise<void> => {
  const calls = ork.mock(double, ({ n }) => ({ n })).calls
  expectTypeOf(calls).toEqualTypeOf<readonly { n: number }[]>()
  // @ts-expect-error a mock returns what the task returns
  ork.mock(double, () => ({ m: 1 }))
  // @ts-expect-error a duration has a unit
  await ork.advance("2 days")
  // @ts-expect-error definitions to run are required
  await testOrk({ now: "2026-01-01" })
}

it("every Ork has the interface Orkable, and the rules of types hold", () => {
  expectTypeOf<Ork>().toExtend<Orkable>()
  expectTypeOf<OrkClient>().toExtend<Orkable>()
  expectTypeOf<TestOrk>().toExtend<Orkable>()
  const rules = [ofEveryOrk, ofDefinitions, ofSteps, ofTransactions, ofGraphs, ofFiles, ofTests]
  for (const rule of rules) expect(rule).toBeTypeOf("function")
})
