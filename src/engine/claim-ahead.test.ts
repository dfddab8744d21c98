import { expect, test } from "vitest"
import { ClaimAhead } from "./claim-ahead.ts"
import type { Claim } from "../store/contract/store.ts"
import { VirtualClock } from "../../test/sim/clock.ts"

const claimOf = (attemptId: string): Claim => ({ kind: "job", attemptId }) as unknown as Claim

const setup = () => {
  const clock = new VirtualClock()
  const released: string[] = []
  const ahead = new ClaimAhead(clock, ({ attemptId }) => released.push(attemptId))
  /** Lets time pass. */
  const pass = (ms: number): void => {
    let over = false
    clock.after(ms, () => (over = true))
    while (!over) clock.step()
  }
  return { clock, ahead, released, pass }
}

test("claims that fill all slots and end at once double the next claim, up to a bound", () => {
  const { ahead, pass } = setup()
  const claimed: number[] = []
  for (let claims = 100; claimed.length < 4; claims = 100 + ahead.extra(100, 0)) {
    ahead.claimed(claims)
    claimed.push(claims)
    pass(1)
  }
  expect(claimed).toEqual([100, 200, 400, 500])
})

test("nothing is claimed ahead of attempts that take longer, or when the last claim left slots free", () => {
  const { ahead, pass } = setup()
  ahead.claimed(100)
  pass(30)
  expect(ahead.extra(100, 0)).toBe(0)
  ahead.claimed(99)
  expect(ahead.extra(100, 0)).toBe(0)
})

test("two commits at once share the bound", () => {
  const { ahead, pass } = setup()
  const claimed: number[] = []
  for (let claims = 50, other = 50; claimed.length < 8; [other, claims] = [claims, 100 + ahead.extra(100, claims) - claims]) {
    ahead.claimed(other)
    claimed.push(claims)
    pass(1)
  }
  expect(claimed).toEqual([50, 150, 250, 250, 250, 250, 250, 250])
})

test("a process with one slot claims as many as it starts soon", () => {
  const { ahead, pass } = setup()
  ahead.claimed(8)
  pass(20)
  expect(1 + ahead.extra(1, 0)).toBe(10)
})

test("claims start in their order, and those that waited too long are released", () => {
  const { ahead, released, pass } = setup()
  for (const id of ["a", "b", "c"]) ahead.add(claimOf(id))
  expect(ahead.next()).toMatchObject({ attemptId: "a" })
  pass(49)
  expect(released).toEqual([])
  pass(1)
  expect(released).toEqual(["b", "c"])
  expect([ahead.size, ahead.has("b"), ahead.next()]).toEqual([0, false, undefined])
})
