import { describe, expect, it, test } from "vitest"
import { isWaitingExecutor, type Poll, waitingOf, waitingText, waitingView, type WaitingOn } from "./waiting-on.ts"

const UNTIL = "2026-01-31T10:00:00.000Z"

describe("waitingView", () => {
  const poll: Poll = {
    url: "https://x.test/7",
    method: "GET",
    headers: { token: "s3cret" },
    everyMs: 10_000,
    doneWhen: "response.body.done",
  }

  it.each<[WaitingOn, string | null, string]>([
    [{ kind: "sleep", ms: 1000 }, UNTIL, `sleeps until ${UNTIL}`],
    [{ kind: "approval", message: "go?", default: "reject" }, null, "waits for approval: go?"],
    [{ kind: "approval" }, UNTIL, "waits for approval"],
    [{ kind: "workflow", workflow: "etl", runId: "r1" }, null, "waits for workflow etl"],
    [{ kind: "workflow", workflow: "etl", runId: "r1", made: true }, null, "waits for workflow etl (run r1)"],
    [{ kind: "poll", poll, since: 0, errors: 2 }, UNTIL, "polls https://x.test/7"],
    [{ kind: "callback", since: 0 }, null, "waits for a callback"],
  ])("describes %j in one line", (waitingOn, until, text) => {
    expect(waitingText(waitingView(waitingOn, until))).toBe(text)
  })

  it("leaves out headers", () => {
    expect(JSON.stringify(waitingView({ kind: "poll", poll, since: 0, errors: 0 }, null))).not.toContain("s3cret")
  })
})

test("a condition shows its next check, which follows from the start of the attempt, and what the last check saw", () => {
  const waitingOn = { kind: "condition", condition: "/data/in.csv", everyMs: 10_000 } as const
  const row = { waitingOn, resumeAt: null, startedAt: "2026-01-01T00:00:00.000Z", progress: { details: "it does not exist" } }
  const view = waitingOf(row, Date.parse("2026-01-01T00:00:25.000Z"))!
  expect(view).toEqual({
    kind: "condition",
    condition: "/data/in.csv",
    every_ms: 10_000,
    last: "it does not exist",
    until: "2026-01-01T00:00:30.000Z",
  })
  expect(waitingText(view)).toBe(
    "waits for /data/in.csv (checked every 10s, next at 2026-01-01T00:00:30.000Z); the last check: it does not exist",
  )
  expect(waitingOf({ ...row, waitingOn: null }, 0)).toBeNull()
})

test("only sleep, wait, approval and workflow are executors that wait", () => {
  expect(["sleep", "wait", "approval", "workflow", "process"].map(isWaitingExecutor)).toEqual([true, true, true, true, false])
})
