import { expect, test } from "vitest"
import { SignIns } from "./sign-ins.ts"

test("a sign-in token is valid once within an hour", () => {
  let now = 0
  const store = { createSession: async () => {}, findSession: async () => null, removeSession: async () => {} }
  const signIns = new SignIns({ store, now: () => now, random: { next: () => 0, hex128: () => String(now) } })
  const token = signIns.newToken({ key: "abc" })
  now = 3_600_000
  expect(signIns.redeem(token)).toBeNull()
  const next = signIns.newToken({ key: "abc" })
  expect([signIns.redeem(next), signIns.redeem(next)]).toEqual([{ key: "abc" }, null])
})
