import { expect, test } from "vitest"
import type { InstanceSummary, Page } from "../api/types.ts"
import { RunModel, type RunSource } from "./run-model.ts"
import { graphOf, runEvent, taskEvent } from "./testing.ts"

const item = (name: string): InstanceSummary => ({
  name,
  path: "",
  status: "pending",
  attempt: 0,
  label: null,
  available_at: null,
  waiting: null,
  dispatched_at: null,
  started_at: null,
  finished_at: null,
  past: [],
})

/** Pages that resolve when the test decides. */
const held = () => {
  const asked: { answer: (page: Page<InstanceSummary>) => void; refuse: (error: Error) => void }[] = []
  let graphs = 0
  const source: RunSource = {
    graph: async () => {
      graphs += 1
      return graphOf({ a: {}, b: {} })
    },
    instances: () => new Promise((answer, refuse) => asked.push({ answer, refuse })),
  }
  const next = async () => {
    await expect.poll(() => asked.length).toBeGreaterThan(0)
    return asked.shift()!
  }
  return { model: new RunModel(source), next, graphs: () => graphs }
}

const page = (names: string[], cursor: string | null = null): Page<InstanceSummary> => ({
  items: names.map(item),
  next_cursor: cursor,
  has_more: cursor !== null,
})

test("the graph is loaded before the instances, and events are applied after them", async () => {
  const { model, next } = held()
  const loading = model.load()
  const first = await next()
  expect(model.state?.complete).toBe(false)
  model.apply([taskEvent("a", "running", 1)], false)
  first.answer(page(["a"], "more"))
  ;(await next()).answer(page(["b"]))
  await loading
  expect(model.state?.complete).toBe(true)
  expect(model.state?.byName.get("a")?.counts).toMatchObject({ running: 1, pending: 0 })
})

test("a reload during a load runs once after it, and the finish of a run reloads it", async () => {
  const { model, next, graphs } = held()
  const loading = model.load()
  void model.load()
  void model.load()
  ;(await next()).answer(page(["a", "b"]))
  ;(await next()).answer(page(["a", "b"]))
  await loading
  expect(graphs()).toBe(2)
  const before = model.version
  model.apply([runEvent("success", 3)], false)
  expect(model.version).toBe(before + 1)
  ;(await next()).answer(page(["a", "b"]))
  expect(graphs()).toBe(3)
})

test("a stopped model loads again, and a failure is reported", async () => {
  const { model, next } = held()
  void model.load()
  await next()
  model.stop()
  const loading = model.load()
  ;(await next()).refuse(new Error("away"))
  await loading
  expect(model.error).toMatchObject({ message: "away" })
  const again = model.load()
  ;(await next()).answer(page(["a", "b"]))
  await again
  expect([model.error, model.state?.complete]).toEqual([null, true])
})
