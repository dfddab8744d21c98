import { CronExpressionParser } from "cron-parser"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { nextTicks, previousTicks } from "./cron.ts"
import { dayIn, dueFirings, longestJitter, nextFiring, nextFirings, ticksIn } from "./schedule.ts"
import type { ScheduleSpec } from "../model/workflow.ts"

const spec = (rest: Partial<ScheduleSpec> = {}): ScheduleSpec => ({
  cron: "*/10 * * * *",
  timezone: "UTC",
  catchup: "none",
  overlap: "allow",
  ...rest,
})
const at = (text: string): number => Date.parse(`2026-${text}Z`)
const times = (firings: { at: number }[]): string[] => firings.map((firing) => new Date(firing.at).toISOString().slice(5, 16))

describe("ticks in Berlin", () => {
  const ticks = (cron: string, after: string, count: number): string[] =>
    nextTicks(cron, "Europe/Berlin", new Date(at(after)), count).map((tick) => tick.toISOString().slice(5, 16))

  it("fire at the next existing time when the clock skips them", () => {
    expect(ticks("30 2 * * *", "03-28T12:00", 2)).toEqual(["03-29T01:00", "03-30T00:30"])
  })
  it("fire once when the clock repeats them", () => {
    expect(ticks("30 2 * * *", "10-24T12:00", 2)).toEqual(["10-25T00:30", "10-26T01:30"])
  })
  it("follow elapsed time with stars and steps", () => {
    expect(ticks("0 * * * *", "10-24T23:30", 4)).toEqual(["10-25T00:00", "10-25T01:00", "10-25T02:00", "10-25T03:00"])
    expect(ticks("*/30 * * * *", "03-29T00:15", 3)).toEqual(["03-29T00:30", "03-29T01:00", "03-29T01:30"])
  })
})

describe("nextTicks", () => {
  it("agrees with another implementation, away from clock changes", () => {
    const field = (max: number, min = 0) =>
      fc.oneof(fc.constantFrom("*", ...(max > 20 ? ["*/5", "*/7"] : [])), fc.integer({ min, max }).map(String))
    const zone = fc.constantFrom("UTC", "Asia/Tokyo", "Asia/Kolkata", "America/Bogota")
    fc.assert(
      fc.property(
        field(59),
        field(23),
        field(28, 1),
        field(12, 1),
        zone,
        fc.integer({ min: 0, max: 500_000 }),
        (m, h, d, mo, tz, ago) => {
          const after = new Date(at("01-01T00:00") + ago * 60_000)
          const cron = `${m} ${h} ${d} ${mo} *`
          const other = CronExpressionParser.parse(cron, { currentDate: after, tz })
          expect(nextTicks(cron, tz, after, 3)).toEqual([1, 2, 3].map(() => other.next().toDate()))
        },
      ),
    )
  })

  it("misses no day after the end of February", () => {
    const days = (cron: string): string[] =>
      nextTicks(cron, "America/New_York", new Date(at("02-20T12:00")), 3).map((tick) => tick.toISOString().slice(5, 16))
    expect(days("0 0 1,31 * *")).toEqual(["03-01T05:00", "03-31T04:00", "04-01T04:00"])
    expect(days("30 0 2,30 * *")).toEqual(["03-02T05:30", "03-30T04:30", "04-02T04:30"])
    expect(days("0 0 */5 * *")).toEqual(["02-21T05:00", "02-26T05:00", "03-01T05:00"])
  })

  it("is the inverse of previousTicks", () => {
    const forward = nextTicks("*/7 3,4 * * *", "America/New_York", new Date(at("03-01T00:00")), 300)
    expect(previousTicks("*/7 3,4 * * *", "America/New_York", forward.at(-1)!, 300)).toEqual(forward)
  })
})

describe("nextFirings", () => {
  it("lie between start and end", () => {
    const bounded = spec({ start: "2026-02-01", end: "2026-02-01T00:30:00Z" })
    expect(times(nextFirings(bounded, "k", at("01-01T00:00"), 5))).toEqual(["02-01T00:00", "02-01T00:10", "02-01T00:20"])
    expect(nextFiring(bounded, "k", at("03-01T00:00"))).toBeNull()
  })

  it("begin and end with days of their time zone", () => {
    const days = spec({ cron: "0 */6 * * *", timezone: "Asia/Tokyo", start: "2026-02-01", end: "2026-02-01" })
    expect(times(nextFirings(days, "k", at("01-01T00:00"), 5))).toEqual([
      "01-31T15:00",
      "01-31T21:00",
      "02-01T03:00",
      "02-01T09:00",
    ])
  })

  it("are delayed by less than the jitter, and by the same delay for the same tick", () => {
    const jittery = spec({ jitterMs: 120_000 })
    const [first] = nextFirings(jittery, "k", at("01-01T00:00"), 1)
    expect(first).toEqual(nextFirings(jittery, "k", at("01-01T00:00"), 3)[0])
    expect(first!.at - first!.tick).toBeGreaterThanOrEqual(0)
    expect(first!.at - first!.tick).toBeLessThan(120_000)
    expect(nextFiring(jittery, "other", at("01-01T00:00"))!.at).not.toBe(first!.at)
  })
})

describe("a jitter of the longest allowed length", () => {
  it.each([
    ["* * * * *", "01-01T03:00"],
    ["*/15 * * * *", "01-03T00:00"],
    ["* 3 * * *", "01-04T00:00"],
  ])("loses no tick of %s", (cron, end) => {
    const jittery = spec({ cron, jitterMs: longestJitter(cron) })
    const [from, to] = [at("01-01T00:00"), at(end)]
    const fired = new Set<number>()
    for (let next = nextFiring(jittery, "k", from); next !== null && next.at < to;) {
      for (const { tick } of dueFirings(jittery, "k", next.at, next.at)) fired.add(tick)
      next = nextFiring(jittery, "k", next.at)
    }
    const ticks = ticksUntil(cron, from, to - jittery.jitterMs!)
    expect(ticks.filter((tick) => !fired.has(tick))).toEqual([])
    expect(ticks.length).toBeGreaterThan(100)
  })

  it("is 64 periods", () => {
    expect(["* * * * *", "0 * * * *", "* 3 * * *"].map((cron) => longestJitter(cron) / 60_000)).toEqual([64, 64 * 60, 1444])
    expect(longestJitter("0 0 29 2 *")).toBeGreaterThan(at("01-01T00:00"))
  })
})

/** Returns the ticks after `from` and before `to`. */
const ticksUntil = (cron: string, from: number, to: number): number[] =>
  nextTicks(cron, "UTC", new Date(from), 10_000)
    .map((tick) => tick.getTime())
    .filter((tick) => tick < to)

describe("dueFirings", () => {
  const down = { from: at("01-01T00:10"), now: at("01-01T01:05") }
  it.each([
    ["none", []],
    ["latest", ["01-01T01:00"]],
    ["all", ["01-01T00:10", "01-01T00:20", "01-01T00:30", "01-01T00:40", "01-01T00:50", "01-01T01:00"]],
  ] as const)("after an hour away, with catch-up %s, are %j", (catchup, expected) => {
    expect(times(dueFirings(spec({ catchup }), "k", down.from, down.now))).toEqual(expected)
  })

  it("include a tick that is up to a minute late without catch-up", () => {
    expect(times(dueFirings(spec(), "k", at("01-01T00:10"), at("01-01T00:11")))).toEqual(["01-01T00:10"])
    expect(dueFirings(spec(), "k", at("01-01T00:10"), at("01-01T00:11") + 1)).toEqual([])
  })

  it("are at most a hundred, the newest", () => {
    const due = dueFirings(spec({ catchup: "all", cron: "* * * * *" }), "k", at("01-01T00:00"), at("06-01T00:00"))
    expect(due).toHaveLength(100)
    expect(times(due).at(-1)).toBe("06-01T00:00")
  })

  it("never contain a tick before the next one", () => {
    expect(times(dueFirings(spec({ catchup: "all" }), "k", at("01-01T00:50"), at("01-01T01:05")))).toEqual([
      "01-01T00:50",
      "01-01T01:00",
    ])
  })
})

describe("dayIn", () => {
  it("is the day of the zone", () => expect(dayIn("Asia/Tokyo", new Date("2026-01-31T20:00:00Z"))).toBe("2026-02-01"))
})

it("ticksIn returns the ticks of a range in pages, both ends included, up to the end of the schedule", () => {
  const hourly = { cron: "0 * * * *", timezone: "UTC", catchup: "none", end: "2026-01-06T00:00:00Z" } as const
  const found: string[] = []
  let pages = 0
  for (let at: number | null = Date.parse("2026-01-01T00:00:00Z"); at !== null; pages++) {
    const page = ticksIn(hourly, at, Date.parse("2026-01-04T04:00:00Z"))
    found.push(...page.ticks.map((tick) => new Date(tick).toISOString()))
    at = page.next
  }
  expect([found.length, new Set(found).size, found[0], found.at(-1), pages > 1]).toEqual([
    77,
    77,
    "2026-01-01T00:00:00.000Z",
    "2026-01-04T04:00:00.000Z",
    true,
  ])
  expect(ticksIn(hourly, Date.parse("2026-01-05T22:30:00Z"), Date.parse("2027-01-01T00:00:00Z"))).toEqual({
    ticks: [Date.parse("2026-01-05T23:00:00Z")],
    next: null,
  })
})
