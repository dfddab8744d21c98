import { describe, expect, it, test } from "vitest"
import { isWaitingExecutor, type Poll, waitingText, waitingView, type WaitingOn } from "./waiting-on.ts"

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

test("only sleep, approval and workflow are executors that wait", () => {
  expect(["sleep", "approval", "workflow", "process"].map(isWaitingExecutor)).toEqual([true, true, true, false])
})
