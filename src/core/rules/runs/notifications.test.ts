import { describe, expect, it } from "vitest"
import { group, workflow } from "../../testing.ts"
import { hasOpenRow } from "./notifications.ts"

describe("hasOpenRow", () => {
  const fan = { foreach: { lit: [] }, reference: "x" }
  const flow = workflow({ a: {}, outer: { ...group, fan }, "outer.inner": group, "outer.inner.b": {} })
  const row = (node: number, status: "pending" | "running" | "success" | "skipped", childrenCreated = 0) => ({
    node,
    status,
    childrenCreated,
  })

  it.each([
    ["pending", true],
    ["running", true],
    ["success", false],
    ["skipped", false],
  ] as const)("of a task that is %s is %s", (status, expected) => {
    expect(hasOpenRow(flow, 0, [row(0, status), row(1, "running")])).toBe(expected)
  })

  it("is true while an instance of a group around the task is open or has no children yet", () => {
    expect(hasOpenRow(flow, 3, [row(1, "pending")])).toBe(true)
    expect(hasOpenRow(flow, 3, [row(1, "running", 2), row(2, "running", 1), row(2, "pending")])).toBe(true)
    expect(hasOpenRow(flow, 3, [row(1, "running", 2), row(2, "running", 1), row(3, "running")])).toBe(true)
    expect(hasOpenRow(flow, 3, [row(1, "running", 2), row(2, "running", 1), row(3, "success")])).toBe(false)
  })
})
