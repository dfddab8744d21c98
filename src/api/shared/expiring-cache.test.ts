import { expect, test } from "vitest"
import { ExpiringCache } from "./expiring-cache.ts"

test("a cache drops the least recently used entry and expired entries", () => {
  let now = 0
  const cache = new ExpiringCache<number>(2, 100, () => now)
  cache.set("a", 1)
  cache.set("b", 2)
  expect(cache.get("a")).toBe(1)
  cache.set("c", 3)
  expect([cache.get("a"), cache.get("b"), cache.get("c")]).toEqual([1, undefined, 3])
  now = 100
  expect(cache.get("a")).toBeUndefined()
})
