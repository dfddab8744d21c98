import { expect, test } from "vitest"
import type { Run, RunGraph, TaskStatus } from "../../../api/types.ts"
import { compareRuns, sameJson, usualOther } from "./compare.ts"

const at = (ms: number): string => new Date(1_000_000 + ms).toISOString()

type Took = readonly [name: string, status: TaskStatus, ms: number | null]

const side = (params: Record<string, unknown>, tasks: readonly Took[], total = 100) => ({
  run: { params, started_at: at(0), finished_at: at(total), idle_ms: 0 } as unknown as Run,
  graph: {
    tasks: tasks.map(([name, status, ms]) => ({ name, status, started_at: at(0), finished_at: ms === null ? null : at(ms) })),
  } as unknown as RunGraph,
})

test("slower tasks come first, faster ones last, unknown ones in between", () => {
  const { tasks, longest, here, there } = compareRuns(
    side({}, [["fast", "success", 10], ["new", "success", 5], ["slow", "failed", 90], ["open", "running", null]], 200), // prettier-ignore
    side({}, [["fast", "success", 60], ["slow", "success", 30], ["gone", "success", 1], ["open", "success", 3]], 100), // prettier-ignore
  )
  expect(tasks.map(({ name, slower }) => [name, slower])).toEqual([
    ["slow", 60],
    ["new", null],
    ["open", null],
    ["gone", null],
    ["fast", -50],
  ])
  expect(tasks[0]).toMatchObject({ here: { status: "failed", ms: 90 }, there: { status: "success", ms: 30 } })
  expect(tasks.find((task) => task.name === "gone")!.here).toBeNull()
  expect([longest, here, there]).toEqual([90, 200, 100])
})

test("params are compared by value, not by the order of their fields", () => {
  const { params } = compareRuns(side({ a: { x: 1, y: [2] }, b: 1 }, []), side({ a: { y: [2], x: 1 }, b: 2, c: null }, []))
  expect(params.map(({ name, same }) => [name, same])).toEqual([
    ["a", true],
    ["b", false],
    ["c", false],
  ])
  expect(sameJson([1, 2], [2, 1])).toBe(false)
})

test("the default run to compare with is the last success before it", () => {
  const run = (id: string, ms: number, status: string): Run => ({ id, created_at: at(ms), status }) as unknown as Run
  const mine = run("me", 50, "failed")
  const list = [run("later", 60, "success"), mine, run("bad", 40, "failed"), run("good", 30, "success")]
  expect(usualOther(mine, list)?.id).toBe("good")
  expect(usualOther(mine, list.slice(0, 3))?.id).toBe("bad")
  expect(usualOther(mine, list.slice(0, 2))?.id).toBe("later")
  expect(usualOther(mine, [mine])).toBeNull()
})
