import { CronExpressionParser } from "cron-parser"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { cronProblem, isDateText, isTimezone, nextTicks } from "./cron.ts"

describe("cron expressions", () => {
  it.each(["0 2 * * *", "*/5 * * * *", "0 0 1,15 * 1-5", "30 0 2 * * *", "@daily", "@hourly", "0 9 * * MON-FRI", "0 0 29 2 *"])(
    "%s is one",
    (expression) => {
      expect(cronProblem(expression)).toBeNull()
    },
  )

  it.each([
    ["61 * * * *", "Invalid value for minute: 61"],
    ["* * *", "five fields"],
    ["", "five fields"],
    ["0 0 0 0 0 0 0", "five fields"],
    ["@never", "@never"],
    ["a b c d e", "illegal characters"],
    ["0 0 30 2 *", "it has no date in the calendar"],
  ])("%j is not valid: %s", (expression, reason) => {
    expect(cronProblem(expression)).toContain(reason)
  })

  it("tick when another cron library says so", () => {
    const field = (min: number, max: number) =>
      fc.oneof(
        fc.constant("*"),
        fc.integer({ min, max }).map(String),
        fc.integer({ min: 2, max: 9 }).map((step) => `*/${step}`),
      )
    const expression = fc.tuple(field(0, 59), field(0, 23), field(1, 28), field(1, 12)).map((fields) => `${fields.join(" ")} *`)
    const start = fc.date({ min: new Date("2025-01-01"), max: new Date("2027-01-01"), noInvalidDate: true })
    fc.assert(
      fc.property(expression, start, (cron, after) => {
        const other = CronExpressionParser.parse(cron, { currentDate: after, tz: "UTC" })
        expect(nextTicks(cron, "UTC", after, 3).map((tick) => tick.toISOString())).toEqual(
          other.take(3).map((tick) => new Date(tick.getTime()).toISOString()),
        )
      }),
      { numRuns: 60 },
    )
  })

  it("tick by the local time of their zone", () => {
    const ticks = nextTicks("0 2 * * *", "Europe/Berlin", new Date("2026-01-01T00:00:00Z"), 2)
    expect(ticks.map((tick) => tick.toISOString())).toEqual(["2026-01-01T01:00:00.000Z", "2026-01-02T01:00:00.000Z"])
  })
})

describe("time zones and dates", () => {
  it("are IANA names of time zones", () => {
    expect(["UTC", "Europe/Berlin", "America/New_York"].every(isTimezone)).toBe(true)
    expect(["", "Mars/Olympus", "+01:00", "Berlin"].some(isTimezone)).toBe(false)
  })

  it.each([
    ["2026-01-31", true],
    ["2024-02-29", true],
    ["2026-01-31T10:00:00Z", true],
    ["2026-01-31T10:00:00.123+02:00", true],
    ["2026-02-29", false],
    ["2026-13-01", false],
    ["2026-1-1", false],
    ["2026-01-31T25:00:00Z", false],
    ["2026-01-31T10:00:00", false],
    ["today", false],
  ])("%s is a day or an instant: %s", (text, expected) => {
    expect(isDateText(text)).toBe(expected)
  })
})
