import fc from "fast-check"
import { expect, test } from "vitest"
import { SESSION_SECONDS, SignIns } from "./sign-ins.ts"

const random = { next: () => 0, hex128: () => "a".repeat(32) }

test("a session is valid on every server with the same key until it expires", () => {
  let now = 0
  const session = new SignIns("the same key", () => now, random).newSession("server")
  const other = new SignIns("the same key", () => now, random)
  expect(other.subjectOf(session)).toBe("server")
  now = SESSION_SECONDS * 1000
  expect(other.subjectOf(session)).toBeNull()
})

test("a changed session is rejected", () => {
  const signIns = new SignIns("key", () => 0, random)
  const session = signIns.newSession("abc")
  fc.assert(
    fc.property(fc.nat(session.length - 1), fc.string({ minLength: 1, maxLength: 1 }), (at, char) => {
      fc.pre(session[at] !== char)
      expect(signIns.subjectOf(session.slice(0, at) + char + session.slice(at + 1))).toBeNull()
    }),
  )
})

test("a sign-in token is valid once within an hour", () => {
  let now = 0
  const signIns = new SignIns("key", () => now, { next: () => 0, hex128: () => String(now) })
  const token = signIns.newToken("abc")
  now = 3_600_000
  expect(signIns.redeem(token)).toBeNull()
  const next = signIns.newToken("abc")
  expect([signIns.redeem(next), signIns.redeem(next)]).toEqual(["abc", null])
})
