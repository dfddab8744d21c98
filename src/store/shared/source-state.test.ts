import { expect, it } from "vitest"
import { sourceState } from "./source-state.ts"

it("lists the legal source states of a change", () => {
  expect(sourceState("finish", "t")).toBe("t.kind = 'task' AND t.status IN ('dispatched', 'running')")
  expect(sourceState("skip")).toBe("tasks.status = 'pending'")
})

it("requires a running row to wait where the table says so", () => {
  expect(sourceState("release", "t")).toBe(
    "(t.status IN ('pending', 'dispatched') OR t.status = 'running' AND t.waiting_on IS NOT NULL)",
  )
})

it("lists the kinds of rows, unless the change applies to all of them", () => {
  expect(sourceState("gather", "t")).toBe("t.kind IN ('fan', 'group') AND t.status = 'pending'")
  expect(sourceState("fail", "t")).toBe("t.status = 'pending'")
})
