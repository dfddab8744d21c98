import { describe, expect, it } from "vitest"
import { formatDuration, parseCpu, parseDuration, parseMemory } from "./quantities.ts"

describe("durations", () => {
  it.each([
    [90, 90_000],
    [0, 0],
    [1.5, 1500],
    ["90", 90_000],
    ["90s", 90_000],
    ["500ms", 500],
    ["10m", 600_000],
    ["2h", 7_200_000],
    ["1d", 86_400_000],
    ["1.5h", 5_400_000],
    ["1h30m", 5_400_000],
  ])("%j is %d ms", (value, ms) => {
    expect(parseDuration(value)).toBe(ms)
  })

  it.each(["", "10x", "m10", "-5s", "10 m", "1m1h", "1h1h", "s", "9999999d", -1, Infinity, NaN, null, true, "1e3s"])(
    "%j is no duration",
    (value) => {
      expect(parseDuration(value)).toBeNull()
    },
  )
})

describe("sizes", () => {
  it.each([
    [1024, 1024],
    ["512Mi", 512 * 2 ** 20],
    ["1Gi", 2 ** 30],
    ["500M", 5e8],
    ["1.5Ki", 1536],
    ["10k", 10_000],
    ["2GiB", 2 ** 31],
    ["0", null],
    [0, null],
    [-1, null],
    ["12Q", null],
    ["lots", null],
  ])("memory %j is %j bytes", (value, bytes) => {
    expect(parseMemory(value)).toBe(bytes)
  })

  it.each([
    [2, 2],
    ["500m", 0.5],
    ["1.5", 1.5],
    [0, null],
    ["-1", null],
    ["two", null],
  ])("cpu %j is %j cores", (value, cores) => {
    expect(parseCpu(value)).toBe(cores)
  })
})

describe("formatDuration", () => {
  it.each([
    [0, "0ms"],
    [500, "500ms"],
    [1000, "1s"],
    [1500, "1.5s"],
    [90_000, "90s"],
    [5_400_000, "90m"],
    [7_200_000, "2h"],
    [172_800_000, "2d"],
  ])("writes %i ms as %s, which parseDuration reads back", (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
    expect(parseDuration(text)).toBe(ms)
  })
})
