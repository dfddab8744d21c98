import { describe, expect, it } from "vitest"
import { cronProblem, nextTicks, previousTicks } from "./cron.ts"
import { dueFirings, nextFirings } from "./schedule.ts"

const at = (text: string): number => Date.parse(`2026-03-29T${text}Z`)
const times = (ticks: readonly Date[]): string[] => ticks.map((tick) => tick.toISOString().slice(11, 19))

describe("a schedule by interval", () => {
  it("ticks at the multiples of its interval, in any time zone and over clock changes", () => {
    expect(times(nextTicks("@every 20m", "Europe/Berlin", new Date(at("00:40:00")), 3))).toEqual([
      "01:00:00",
      "01:20:00",
      "01:40:00",
    ])
    expect(times(nextTicks("@every 90s", "UTC", new Date(at("00:00:00")), 2))).toEqual(["00:01:30", "00:03:00"])
    expect(times(previousTicks("@every 20m", "UTC", new Date(at("00:40:00")), 2))).toEqual(["00:20:00", "00:40:00"])
  })

  it("catches up on missed ticks as other schedules do", () => {
    const spec = { cron: "@every 5m", timezone: "UTC", catchup: "all" } as const
    const due = dueFirings(spec, "key", at("00:05:00"), at("00:17:00"))
    expect(due.map(({ tick }) => tick)).toEqual([at("00:05:00"), at("00:10:00"), at("00:15:00")])
    expect(nextFirings({ ...spec, jitterMs: 60_000 }, "key", at("00:17:00"), 2)).toHaveLength(2)
  })

  it("needs an interval of at least a second", () => {
    expect(cronProblem("@every 5m")).toBeNull()
    for (const text of ["@every 10ms", "@every soon", "@every "]) expect(cronProblem(text)).toMatch(/at least 1s/)
  })
})
