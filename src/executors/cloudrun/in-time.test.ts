import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { inTime, LATE } from "./in-time.ts"

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test("a call that never ends is given up", async () => {
  const given = inTime(new Promise<void>(() => {}), 1000)
  const ended = expect(given).rejects.toBe(LATE)
  vi.advanceTimersByTime(1000)
  await ended
})

test("one that ends leaves no timer behind", async () => {
  expect(await inTime(Promise.resolve(1), 1000)).toBe(1)
  await expect(inTime(Promise.reject(new Error("no")), 1000)).rejects.toThrow("no")
  expect(vi.getTimerCount()).toBe(0)
})
