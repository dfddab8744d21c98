import { describe, expect, it } from "vitest"
import { isDeferral, readDeferral } from "../rules/defer.ts"
import { isWaitingExecutor, waitingView, waitingText, type WaitingOn } from "./waiting-on.ts"

const POLL = { url: "https://x.test/7", every: "10s", done_when: "response.body.done" }
const UNTIL = "2026-01-31T10:00:00.000Z"

describe("what a task waits for", () => {
  const poll = (readDeferral({ ork_defer: { poll: { ...POLL, headers: { token: "s3cret" } } } }) as { poll: never }).poll

  it.each<[WaitingOn, string | null, string]>([
    [{ kind: "sleep", ms: 1000 }, UNTIL, `sleeps until ${UNTIL}`],
    [{ kind: "approval", message: "go?", default: "reject" }, null, "waits for approval: go?"],
    [{ kind: "approval" }, UNTIL, "waits for approval"],
    [{ kind: "workflow", workflow: "etl", runId: "r1" }, null, "waits for workflow etl"],
    [{ kind: "workflow", workflow: "etl", runId: "r1", made: true }, null, "waits for workflow etl (run r1)"],
    [{ kind: "poll", poll, since: 0, errors: 2 }, UNTIL, "polls https://x.test/7"],
    [{ kind: "callback", since: 0 }, null, "waits for a callback"],
  ])("is told in a line: %j", (waits, until, text) => {
    expect(waitingText(waitingView(waits, until))).toBe(text)
  })

  it("keeps headers and bodies to itself", () => {
    expect(JSON.stringify(waitingView({ kind: "poll", poll, since: 0, errors: 0 }, null))).not.toContain("s3cret")
  })

  it("is the work of some executors", () => {
    expect(["sleep", "approval", "workflow", "process"].map(isWaitingExecutor)).toEqual([true, true, true, false])
  })
})

describe("a deferral", () => {
  it.each([
    [{ ork_defer: {} }, true],
    [{ ork_defer: {}, more: 1 }, false],
    [["ork_defer"], false],
    [null, false],
  ])("is an object with that key alone: %j", (output, is) => {
    expect(isDeferral(output)).toBe(is)
  })

  it("by poll is read with its defaults", () => {
    expect(readDeferral({ ork_defer: { poll: POLL } })).toEqual({
      poll: { url: POLL.url, method: "GET", headers: {}, everyMs: 10_000, doneWhen: "response.body.done" },
    })
  })

  it("by poll is read whole", () => {
    const whole = {
      ...POLL,
      method: "post",
      headers: { a: "b", token: { secret: "T" } },
      body: { q: 1 },
      every: 0,
      done_when: "${{ response.status == 200 }}",
      fail_when: "response.status == 404",
      output: "response.body.rows",
      timeout: "1h",
    }
    expect(readDeferral({ ork_defer: { poll: whole } })).toEqual({
      poll: {
        url: POLL.url,
        method: "POST",
        headers: { a: "b", token: { secret: "T" } },
        body: { q: 1 },
        everyMs: 100,
        doneWhen: "response.status == 200",
        failWhen: "response.status == 404",
        output: "response.body.rows",
        timeoutMs: 3_600_000,
      },
    })
  })

  it("by callback has a timeout or none", () => {
    expect(readDeferral({ ork_defer: { callback: { timeout: "5m" } } })).toEqual({ callback: { timeoutMs: 300_000 } })
    expect(readDeferral({ ork_defer: { callback: {} } })).toEqual({ callback: {} })
  })

  it.each([
    [{ poll: POLL, callback: {} }, "ork_defer needs either poll or callback"],
    [{ pol: POLL }, 'ork_defer has no field "pol"; did you mean poll?'],
    ["poll", "ork_defer must be an object"],
    [{ poll: { ...POLL, every: "often" } }, "ork_defer.poll.every must be a duration"],
    [{ poll: { ...POLL, every: undefined } }, "ork_defer.poll needs every"],
    [{ poll: { ...POLL, done_when: undefined } }, "ork_defer.poll needs done_when"],
    [{ poll: { ...POLL, done_when: "response.(" } }, "not an expression"],
    [{ poll: { ...POLL, url: 7 } }, "ork_defer.poll.url must be a text"],
    [{ poll: { ...POLL, method: "GO TO" } }, "ork_defer.poll.method must be an HTTP method"],
    [{ poll: { ...POLL, headers: ["a"] } }, "ork_defer.poll.headers must be an object"],
    [{ poll: { ...POLL, headers: { a: 1 } } }, "ork_defer.poll.headers.a must be a text or { secret: NAME }"],
    [{ callback: { timeout: -1 } }, "ork_defer.callback.timeout must be a duration"],
  ])("that is wrong is told so: %j", (defer, problem) => {
    const clean = JSON.parse(JSON.stringify(defer)) as never
    expect((readDeferral({ ork_defer: clean }) as { problem: string }).problem).toContain(problem)
  })
})
