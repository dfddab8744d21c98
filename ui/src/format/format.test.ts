import { expect, test } from "vitest"
import { countText, percentText } from "./count.ts"
import { shortBytes } from "../../../src/core/values/quantities.ts"
import { absoluteTime, durationText, relativeTime } from "./time.ts"

const NOW = Date.parse("2026-11-15T06:00:00Z")

test.each([
  [0, "now"],
  [-2000, "now"],
  [-12_345, "12 s ago"],
  [-5 * 60_000, "5 min ago"],
  [-3 * 3_600_000, "3 h ago"],
  [-36 * 3_600_000, "1 day ago"],
  [-9 * 86_400_000, "9 days ago"],
  [90_000, "in 1 min"],
])("an instant %d ms away is told as %s", (distance, text) => {
  expect(relativeTime(NOW + distance, NOW)).toBe(text)
})

test("distant instants are shown as a date, with the year if it differs", () => {
  expect(relativeTime(Date.parse("2026-03-02T12:00:00Z"), NOW)).toBe("2 Mar")
  expect(relativeTime(Date.parse("2025-03-02T12:00:00Z"), NOW)).toBe("2 Mar 2025")
})

test("an absolute time has its milliseconds and its zone", () => {
  expect(absoluteTime(NOW + 12)).toMatch(/^2026-11-1\d \d\d:\d\d:00\.012 (UTC|[+-]\d\d:\d\d)$/)
  expect(absoluteTime(NOW)).toMatch(/^2026-11-1\d \d\d:\d\d:00 (UTC|[+-]\d\d:\d\d)$/)
})

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [4230, "4.2 s"],
  [9990, "9.9 s"],
  [59_999, "59 s"],
  [80_000, "1 min 20 s"],
  [120_000, "2 min"],
  [7_500_000, "2 h 5 min"],
  [273_600_000, "3 d 4 h"],
])("%d ms last %s", (ms, text) => {
  expect(durationText(ms)).toBe(text)
})

test("sizes and counts are short", () => {
  expect([0, 1023, 1536, 5_242_880, 123_456_789].map(shortBytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "118 MiB"])
  expect([7, 9999, 12_345, 99_000, 4_500_000].map(countText)).toEqual(["7", "9,999", "12.3k", "99k", "4.5M"])
})

test("a fraction is never rounded to 0 % or 100 %", () => {
  expect([percentText(999, 1000), percentText(1, 1000), percentText(0, 5), percentText(5, 5), percentText(0, 0)]).toEqual([
    "99 %",
    "1 %",
    "0 %",
    "100 %",
    "–",
  ])
})
