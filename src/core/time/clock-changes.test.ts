// Compares ticks near clock changes with an oracle that looks at the local clock of each minute.

import { describe, expect, it } from "vitest"
import { nextTicks, previousTicks } from "./cron.ts"

const MINUTE = 60_000
const DAY = 1440 * MINUTE

const ZONES = [
  "Europe/Berlin",
  "Europe/Dublin",
  "America/New_York",
  "America/Nuuk",
  "America/Havana",
  "America/Santiago",
  "America/St_Johns",
  "Africa/Cairo",
  "Africa/Casablanca",
  "Asia/Beirut",
  "Asia/Kolkata",
  "Australia/Lord_Howe",
  "Pacific/Chatham",
  "Antarctica/Troll",
]

/** `npm run test:all` plays all of them. */
const PLAYED = ZONES.filter((_, i) => process.env["ORK_TEST_ALL"] === "1" || i % 3 === 0)

const FIXED = [
  "30 2 * * *",
  "0 2,14 * * *",
  "0,30 2 * * *",
  "0,15,45 1-3 * * *",
  "30 23 * * *",
  "0 0 * * *",
  "0,30 0,23 * * *",
  "5-10 0-4 * * *",
  "15 0-23 * * *",
  "30 2 * * 0",
  "30 23 * * 6",
  "30 2,3 25-31 3,10 *",
  "45 1,2 * 3-4,9-11 0,6",
]
const ELAPSED = [
  "* * * * *",
  "*/30 2 * * *",
  "0 * * * *",
  "30 */2 * * *",
  "*/7 0-3 * * *",
  "0 2-4/2 * * *",
  "15,45 * * * 0",
  "*/30 0 * * 0",
  "* 2,3 * * *",
]

const numbers = (field: string, min: number, max: number): Set<number> =>
  new Set(
    field.split(",").flatMap((part) => {
      const [range, step = "1"] = part.split("/")
      const [first, last = first] = range === "*" ? [min, max] : range!.split("-").map(Number)
      return Array.from({ length: max + 1 }, (_, n) => n).filter(
        (n) => n >= first! && n <= last! && (n - first!) % Number(step) === 0,
      )
    }),
  )

/** Returns a function that tells whether a local time, as milliseconds in UTC, matches an expression. */
const matcher = (expression: string): ((local: number) => boolean) => {
  const [minutes, hours, days, months, weekdays] = expression.split(" ") as [string, string, string, string, string]
  const sets = [
    numbers(minutes, 0, 59),
    numbers(hours, 0, 23),
    numbers(days, 1, 31),
    numbers(months, 1, 12),
    numbers(weekdays, 0, 6),
  ]
  return (local) => {
    const date = new Date(local)
    const values = [date.getUTCMinutes(), date.getUTCHours(), date.getUTCDate(), date.getUTCMonth() + 1, date.getUTCDay()]
    return values.every((value, i) => sets[i]!.has(value))
  }
}

interface Clock {
  instants: number[]
  locals: number[]
}

const clockOf = (timezone: string, from: number, to: number): Clock => {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: timezone, dateStyle: "short", timeStyle: "medium" })
  const instants = Array.from({ length: (to - from) / MINUTE }, (_, i) => from + i * MINUTE)
  return { instants, locals: instants.map((instant) => Date.parse(`${format.format(instant).replace(" ", "T")}Z`)) }
}

const ticksByLookingAtTheClock = (expression: string, { instants, locals }: Clock): number[] => {
  const matches = matcher(expression)
  if (!FIXED.includes(expression)) return instants.filter((_, i) => matches(locals[i]!))
  const ticks = new Set<number>()
  let i = 0
  for (let local = locals[0]!; local <= locals.at(-1)!; local += MINUTE) {
    while (locals[i]! < local) i++
    if (matches(local)) ticks.add(instants[i]!)
  }
  return [...ticks]
}

const clockChanges = (timezone: string, year: number): number[] => {
  const format = new Intl.DateTimeFormat("en", { timeZone: timezone, timeZoneName: "longOffset" })
  const offset = (day: number): string | undefined =>
    format.formatToParts(day).find(({ type }) => type === "timeZoneName")?.value
  const days = Array.from({ length: 366 }, (_, day) => Date.UTC(year, 0, 1) + day * DAY)
  return days.filter((day) => offset(day) !== offset(day + DAY))
}

describe("ticks near clock changes", () => {
  it.each(PLAYED)("are those of the local clock in %s", (timezone) => {
    const differences: string[] = []
    for (const year of [2026]) {
      for (const change of [...clockChanges(timezone, year), Date.UTC(year, 5, 1)]) {
        const [from, to] = [change - 2 * DAY, change + 3 * DAY]
        const clock = clockOf(timezone, from, to)
        for (const expression of [...FIXED, ...ELAPSED]) {
          const expected = ticksByLookingAtTheClock(expression, clock).filter((tick) => tick >= from + DAY && tick < to - DAY)
          const next = nextTicks(expression, timezone, new Date(from + DAY - 1), expected.length + 1)
          const previous = previousTicks(expression, timezone, new Date(to - DAY - 1), expected.length)
          for (const [i, tick] of expected.entries()) {
            const found = [
              next[i]?.getTime(),
              previous[i]?.getTime(),
              nextTicks(expression, timezone, new Date(tick - 1), 1)[0]?.getTime(),
            ]
            if (found.some((each) => each !== tick))
              differences.push(`${expression} at ${new Date(tick).toISOString()}: ${found.join()}`)
          }
          const beyond = next.at(-1)
          if (next.length > expected.length && beyond!.getTime() < to - DAY)
            differences.push(`${expression} also at ${beyond!.toISOString()}`)
        }
      }
    }
    expect(differences).toEqual([])
  })

  it("cover clocks that go forward and back, by hours and half hours", () => {
    const unchanged = ZONES.filter((zone) => clockChanges(zone, 2026).length < 2)
    expect(unchanged).toEqual(["Asia/Kolkata"])
  })
})
