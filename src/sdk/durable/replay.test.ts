// Random programs whose engine crashes at every commit, before and after it: the result is that of a program that was not interrupted,
// `step.tx` has one effect, each child exists once, and code of steps runs again at most once per crash.

import { expect, it } from "vitest"
import { checkEveryCommit } from "./testing/check-replay.ts"
import { programOf } from "./testing/programs.ts"

it.each([1, 2])("a program that crashes at any commit gives the same result (seed %i)", async (seed) => {
  expect(await checkEveryCommit(programOf(seed, 3))).toBeGreaterThan(0)
})
