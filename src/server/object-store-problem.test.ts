import { expect, it } from "vitest"
import { objectStoreProblem } from "./object-store-problem.ts"
import { VirtualClock } from "../../test/sim/clock.ts"

it("an object store that works has no problem", async () => {
  expect(await objectStoreProblem({ check: async () => {} }, new VirtualClock())).toBeNull()
})

it("the problem of an object store that cannot be written is its error", async () => {
  const check = () => Promise.reject(new Error("the object store in /data cannot be used: EROFS"))
  expect(await objectStoreProblem({ check }, new VirtualClock())).toBe("the object store in /data cannot be used: EROFS")
})

it("an object store that does not respond has a problem", async () => {
  const clock = new VirtualClock()
  const found = objectStoreProblem({ check: () => new Promise(() => {}) }, clock)
  clock.step()
  expect(await found).toBe("the object store does not respond")
})
