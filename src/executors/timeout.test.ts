import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { withTimeout } from "./timeout.ts"

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test("a promise that never settles is rejected after the time limit", async () => {
  const limited = withTimeout(new Promise<void>(() => {}), 1000, "too late")
  const rejected = expect(limited).rejects.toThrow("too late")
  vi.advanceTimersByTime(1000)
  await rejected
})

test("a promise that settles leaves no timer behind", async () => {
  expect(await withTimeout(Promise.resolve(1), 1000, "too late")).toBe(1)
  await expect(withTimeout(Promise.reject(new Error("no")), 1000, "too late")).rejects.toThrow("no")
  expect(vi.getTimerCount()).toBe(0)
})
