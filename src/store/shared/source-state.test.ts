import { expect, it } from "vitest"
import { sourceStatus } from "./source-state.ts"

it("lists the legal source states of a change", () => {
  expect(sourceStatus("finish", "t")).toBe("t.status IN ('dispatched', 'running')")
  expect(sourceStatus("skip")).toBe("tasks.status = 'pending'")
})

it("requires a running row to wait where the table says so", () => {
  expect(sourceStatus("release", "t")).toBe(
    "(t.status IN ('pending', 'dispatched') OR t.status = 'running' AND t.waiting_on IS NOT NULL)",
  )
})
