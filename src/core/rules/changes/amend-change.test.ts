import { describe, expect, it } from "vitest"
import type { Change } from "../../model/change.ts"
import type { AttemptId } from "../../model/ids.ts"
import { amendJobChange, amendOverdueChange, type OverdueRow } from "./amend-change.ts"

const fence = { row: 1, attemptId: "a" as AttemptId }
const NOW = 5000
const result = { startedAt: 10, finishedAt: 20 }
const failed = { ...fence, kind: "finish", status: "failed", result: { ...result, state: "failed" } } as const
const retry = { ...fence, kind: "retry", delayMs: 0, lost: false, result: { ...result, state: "failed", error: "x" } } as const
const release = { ...fence, kind: "release" } as const
const wait = { ...fence, kind: "wait", waitingOn: { kind: "timer" }, delayMs: 1, startedAt: 7 } as unknown as Extract<
  Change,
  { kind: "wait" }
>
const gather = (status: "success" | "failed"): Change => ({
  ...fence,
  kind: "gather",
  status,
  output: { inline: [] },
  ...(status === "failed" && { error: "1 failed" }),
})

describe("a change of a job whose stop was requested", () => {
  it("becomes a cancel where the job would be tried again", () => {
    expect(amendJobChange(retry, true, NOW)).toMatchObject({
      kind: "finish",
      status: "cancelled",
      result: { ...result, state: "cancelled", error: "cancelled" },
    })
    expect(amendJobChange(release, true, NOW)).toMatchObject({
      kind: "finish",
      result: { startedAt: null, finishedAt: NOW, state: "cancelled" },
    })
  })

  it("keeps a result that came first", () => {
    expect(amendJobChange(failed, true, NOW)).toBe(failed)
  })

  it("stays as it is without a request", () => {
    expect(amendJobChange(retry, false, NOW)).toBe(retry)
    expect(amendJobChange(release, false, NOW)).toBe(release)
  })
})

describe("a change inside an overdue group", () => {
  const inside: OverdueRow = { isOverdue: false, timeoutMs: null, usesSlots: true }

  it("cancels an attempt that would be tried again, wait or be released", () => {
    for (const change of [retry, wait, release])
      expect(amendOverdueChange(change, inside, NOW)).toMatchObject({
        change: { kind: "finish", status: "cancelled", result: { state: "cancelled" } },
        leavesOpenRow: false,
      })
    expect(amendOverdueChange(wait, inside, NOW).change).toMatchObject({ result: { startedAt: 7, finishedAt: NOW } })
  })

  it("keeps the change of a row without slots, and reports that the row stays open", () => {
    for (const change of [wait, release])
      expect(amendOverdueChange(change, { ...inside, usesSlots: false }, NOW)).toEqual({ change, leavesOpenRow: true })
    const enqueue: Change = { ...fence, kind: "enqueue", lane: "l", limits: [] }
    expect(amendOverdueChange(enqueue, inside, NOW)).toEqual({ change: enqueue, leavesOpenRow: true })
  })

  it("keeps results", () => {
    expect(amendOverdueChange(failed, inside, NOW)).toEqual({ change: failed, leavesOpenRow: false })
    expect(amendOverdueChange(gather("success"), inside, NOW).change).toMatchObject({ status: "success" })
  })

  it("fails the overdue group with its timeout and cancels containers inside it", () => {
    const overdue = { isOverdue: true, timeoutMs: 60_000, usesSlots: false }
    expect(amendOverdueChange(gather("failed"), overdue, NOW).change).toMatchObject({
      status: "failed",
      error: "timed out after 1m",
    })
    const container = amendOverdueChange(gather("failed"), inside, NOW).change
    expect(container).toMatchObject({ status: "cancelled" })
    expect(container).not.toHaveProperty("error")
  })
})
