// The small parts by themselves: cursors, depth of bodies, order of ids, sessions, the brake on guessing.

import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { isTooDeep } from "./http/body.ts"
import { nameCursor, numberCursor, parseNameCursor, parseNumberCursor, parseTimeCursor, timeCursor } from "./http/cursors.ts"
import { compareEventIds } from "./streams/event-feed.ts"
import { ExpiringCache } from "./http/expiring-cache.ts"
import { SESSION_SECONDS, SignIns } from "./auth/sign-ins.ts"
import { Throttle } from "./auth/throttle.ts"

const depth = (value: unknown): number =>
  typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0

describe("cursors", () => {
  test("lead back to the place they were made of", () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date("9999-12-31"), noInvalidDate: true }), fc.uuid(), (date, id) => {
        const place = { createdAt: date.toISOString(), id }
        expect(parseTimeCursor(timeCursor(place))).toEqual(place)
        expect(parseTimeCursor(timeCursor(place).replaceAll("=", ""))).toEqual(place)
      }),
    )
    expect(parseNumberCursor("t", numberCursor("t", 42))).toBe(42)
    expect(parseNameCursor("w", nameCursor("w", "a.b-c"))).toBe("a.b-c")
  })

  test("refuse every other text", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
        expect(() => parseTimeCursor(text)).toThrow(/cursor/)
        expect(() => parseNumberCursor("t", text)).toThrow(/cursor/)
        expect(() => parseNameCursor("w", text)).toThrow(/cursor/)
      }),
    )
    expect(() => parseNumberCursor("t", numberCursor("s", 42))).toThrow(/cursor/)
  })
})

test("the depth of a JSON text is told without parsing it, whatever stands in its strings", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(8), (value, max) => {
      const text = JSON.stringify(value)
      expect(isTooDeep(text, max)).toBe(text.length > max && depth(value) > max)
    }),
  )
  expect(isTooDeep('["[[[[","\\"[[[["]', 1)).toBe(false)
})

test("event ids are ordered by batch, then place, as numbers", () => {
  const ordered = ["0.0", "1.0", "1.2", "1.10", "2.0", "10.0"]
  expect(ordered.toReversed().toSorted(compareEventIds)).toEqual(ordered)
})

test("an LRU forgets the least recently used and what is too old", () => {
  let now = 0
  const lru = new ExpiringCache<number>(2, 100, () => now)
  lru.set("a", 1)
  lru.set("b", 2)
  expect(lru.get("a")).toBe(1)
  lru.set("c", 3)
  expect([lru.get("a"), lru.get("b"), lru.get("c")]).toEqual([1, undefined, 3])
  now = 100
  expect(lru.get("a")).toBeUndefined()
})

describe("sessions", () => {
  const random = { next: () => 0, hex128: () => "a".repeat(32) }

  test("hold on every server with the same key until they are over", () => {
    let now = 0
    const session = new SignIns("the same key", () => now, random).newSession("server")
    const other = new SignIns("the same key", () => now, random)
    expect(other.subjectOf(session)).toBe("server")
    now = SESSION_SECONDS * 1000
    expect(other.subjectOf(session)).toBeNull()
  })

  test("cannot be changed", () => {
    const signIns = new SignIns("key", () => 0, random)
    const session = signIns.newSession("abc")
    fc.assert(
      fc.property(fc.nat(session.length - 1), fc.string({ minLength: 1, maxLength: 1 }), (at, char) => {
        fc.pre(session[at] !== char)
        expect(signIns.subjectOf(session.slice(0, at) + char + session.slice(at + 1))).toBeNull()
      }),
    )
  })

  test("a link is good for one use within an hour", () => {
    let now = 0
    const signIns = new SignIns("key", () => now, { next: () => 0, hex128: () => String(now) })
    const token = signIns.newToken("abc")
    now = 3_600_000
    expect(signIns.redeem(token)).toBeNull()
    const next = signIns.newToken("abc")
    expect([signIns.redeem(next), signIns.redeem(next)]).toEqual(["abc", null])
  })
})

test("an address that guessed too often waits out a minute, and others do not", () => {
  let now = 0
  const throttle = new Throttle(2, () => now)
  throttle.recordSuccess("here", "good")
  for (let i = 0; i < 2; i++) throttle.recordFailure("here")
  expect(throttle.secondsToWait("here", "any")).toBe(60)
  expect(throttle.secondsToWait("here", "good")).toBe(0)
  expect(throttle.secondsToWait("there", "any")).toBe(0)
  now = 30_000
  expect(throttle.secondsToWait("here", "any")).toBe(30)
  now = 60_000
  expect(throttle.secondsToWait("here", "any")).toBe(0)
})
