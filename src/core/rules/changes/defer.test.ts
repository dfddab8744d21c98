import { describe, expect, it } from "vitest"
import { isDeferral, readDeferral as read } from "./defer.ts"
import type { JsonObject } from "../../values/json.ts"

const POLL = { url: "https://x.test/7", every: "10s", done_when: "response.body.done" }

const readDeferral = (output: JsonObject) => read(output, { secrets: ["T"], hosts: ["x.test"] })

describe("a deferral", () => {
  it.each([
    [{ ork_defer: {} }, true],
    [{ ork_defer: {}, more: 1 }, false],
    [["ork_defer"], false],
    [null, false],
  ])("is an object whose only key is ork_defer: %j", (output, expected) => {
    expect(isDeferral(output)).toBe(expected)
  })

  it("by poll has defaults", () => {
    expect(readDeferral({ ork_defer: { poll: POLL } })).toEqual({
      poll: { url: POLL.url, method: "GET", headers: {}, everyMs: 10_000, doneWhen: "response.body.done" },
    })
  })

  it("by poll may have every field", () => {
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

  it("by callback may have a timeout", () => {
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
    [{ poll: { ...POLL, done_when: "response.(" } }, "not a valid expression"],
    [{ poll: { ...POLL, url: 7 } }, "ork_defer.poll.url must be a non-empty text"],
    [{ poll: { ...POLL, method: "GO TO" } }, "ork_defer.poll.method must be an HTTP method"],
    [{ poll: { ...POLL, headers: ["a"] } }, "ork_defer.poll.headers must be an object"],
    [{ poll: { ...POLL, headers: { a: 1 } } }, "ork_defer.poll.headers.a must be a text or { secret: NAME }"],
    [{ callback: { timeout: -1 } }, "ork_defer.callback.timeout must be a duration"],
  ])("with a mistake is a problem: %j", (defer, problem) => {
    const clean = JSON.parse(JSON.stringify(defer)) as never
    expect((readDeferral({ ork_defer: clean }) as { problem: string }).problem).toContain(problem)
  })
})
