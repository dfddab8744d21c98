import { describe, expect, it } from "vitest"
import type { TaskStatus } from "../../model/status.ts"
import { node } from "../../testing.ts"
import { countOverride, countUpstreamEnd, overrideError, overrideTarget, recomputeRunStatus } from "./overrides.ts"

const row = (status: TaskStatus, more = {}) => ({ status, attemptId: null, isWaiting: false, childrenCreated: 0, ...more })

describe("the target of an override", () => {
  it.each([
    [row("success", { attemptId: "a" }), "finished"],
    [row("skipped"), "finished"],
    [row("pending"), "pending"],
    [row("pending", { attemptId: "gate" }), "in_flight"],
    [row("pending", { childrenCreated: 2 }), "in_flight"],
    [row("running", { attemptId: "a" }), "in_flight"],
    [row("dispatched", { attemptId: "a" }), "in_flight"],
    [row("running", { attemptId: "a", isWaiting: true }), "waiting"],
  ] as const)("%j is %s", (of, target) => {
    expect(overrideTarget(of)).toBe(target)
  })
})

describe("counters after an override of a finished row", () => {
  const task = { kind: "task", hook: false, isChild: false } as const
  const build = node("build")

  it("move a top-level task from one status to the other", () => {
    expect(countOverride(build, task, "failed", "success")).toEqual({
      tasks: { success: 1, failed: -1, skipped: 0, cancelled: 0 },
      runFailed: -1,
      parentFailed: 0,
    })
  })

  it("count an instance in its container instead of the run's failures", () => {
    const instance = { ...task, isChild: true }
    expect(countOverride(build, instance, "cancelled", "success")).toMatchObject({ runFailed: 0, parentFailed: -1 })
    expect(countOverride(build, instance, "failed", "success").tasks).toMatchObject({ success: 1, failed: -1 })
  })

  it("leave out the failures that `continue_on_error` allows", () => {
    const allowed = node("build", { continueOnError: true })
    expect(countOverride(allowed, task, "failed", "success").runFailed).toBe(0)
    expect(countOverride(allowed, { ...task, isChild: true }, "success", "failed").parentFailed).toBe(0)
  })

  it("leave hooks out, and containers out of the listed tasks", () => {
    const none = { success: 0, failed: 0, skipped: 0, cancelled: 0 }
    expect(countOverride(build, { ...task, hook: true }, "failed", "success")).toEqual({
      tasks: none,
      runFailed: 0,
      parentFailed: 0,
    })
    expect(countOverride(build, { ...task, kind: "fan" }, "failed", "success")).toEqual({
      tasks: none,
      runFailed: -1,
      parentFailed: 0,
    })
  })

  it("of downstream rows replace the earlier end", () => {
    expect(countUpstreamEnd("failed", "success")).toEqual({ failed: -1, unmet: 0, waived: 0 })
    expect(countUpstreamEnd("waived", "failed")).toEqual({ failed: 1, unmet: 0, waived: -1 })
    expect(countUpstreamEnd(null, "failed")).toEqual({ failed: 1, unmet: 0, waived: 0 })
  })
})

describe("the status of a run after an override", () => {
  const recompute = (status: "running" | "success" | "failed" | "cancelled", failed: number, hasCancelled = false) =>
    recomputeRunStatus({ status, failed, hasCancelled }, "build")

  it("follows its tasks", () => {
    expect(recompute("success", 1)).toEqual({ status: "failed", error: "task build failed" })
    expect(recompute("failed", 0)).toEqual({ status: "success", error: null })
  })

  it("stays failed while a task that may not fail is failed, or a task is cancelled", () => {
    expect(recompute("failed", 1)).toBeNull()
    expect(recompute("failed", 0, true)).toBeNull()
  })

  it("does not change while the run is unfinished, or after a cancel", () => {
    expect(recompute("running", 1)).toBeNull()
    expect(recompute("cancelled", 0)).toBeNull()
  })
})

it("stores the reason as an error only for a failure", () => {
  expect(overrideError({ status: "failed", reason: "bad data" })).toBe("bad data")
  expect(overrideError({ status: "success", reason: "checked" })).toBeNull()
})
