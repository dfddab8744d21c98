import { expect, it } from "vitest"
import { workflow } from "../../testing.ts"
import { planStart, runsToStart, mustWaitToStart } from "./start.ts"

const run = (id: string, workflowId: number, maxActiveRuns?: number) => ({ id, workflowId, maxActiveRuns })
const started = (runs: ReturnType<typeof run>[], running: [number, number][] = []) =>
  runsToStart(runs, new Map(running)).map(({ id }) => id)

it("starts the oldest runs up to the limit of their workflow", () => {
  expect(started([run("a", 1, 2), run("b", 1, 2), run("c", 1, 2)], [[1, 1]])).toEqual(["a"])
  expect(started([run("a", 1, 2), run("b", 1, 2), run("c", 1, 2)])).toEqual(["a", "b"])
})

it("counts each workflow by itself", () => {
  expect(started([run("a", 1, 1), run("b", 1, 1), run("c", 2, 1)], [[1, 1]])).toEqual(["c"])
})

it("starts all runs of a workflow without a limit", () => {
  expect(started([run("a", 1), run("b", 1)], [[1, 50]])).toEqual(["a", "b"])
})

it("holds back later runs behind one that may not start, even if their version allows more", () => {
  expect(started([run("a", 1, 1), run("b", 1, 5)], [[1, 1]])).toEqual([])
})

it("inserts a run as pending when its workflow or its schedule may hold it back", () => {
  const limited = workflow({ a: {} }, { maxActiveRuns: 2 })
  expect(mustWaitToStart(workflow({ a: {} }), {})).toBe(false)
  expect(mustWaitToStart(workflow({ a: {} }), { waitForSchedule: true })).toBe(true)
  expect(mustWaitToStart(limited, {})).toBe(true)
  expect(mustWaitToStart(limited, { parent: { withinSameWorkflow: false } })).toBe(true)
  expect(mustWaitToStart(limited, { parent: { withinSameWorkflow: true } })).toBe(false)
})

it("starts a run with its top-level rows, of which containers are not listed as tasks", () => {
  const compiled = workflow({ a: {}, b: { after: ["a"], fan: { foreach: "x" } as never } }, { timeoutMs: 9 })
  const start = planStart(compiled, { id: "r", private: false, priority: 5 })
  expect(start.rows).toHaveLength(2)
  expect(start).toMatchObject({ tasks: 1, timeoutMs: 9, notifications: [] })
})
