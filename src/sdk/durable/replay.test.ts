// Random programs whose engine crashes at every commit: the result is that of a program that was not interrupted, `step.tx` has one effect,
// each child exists once, and code of steps runs again at most once per crash. replay.slow.test.ts plays more of them.

import { expect, it } from "vitest"
import { checkEveryCommit } from "./testing/check-replay.ts"
import { programOf } from "./testing/programs.ts"

// Two small programs with operations of every kind.
it.each([69, 315])(
  "a program that crashes at any commit, before or after it, gives the same result (seed %i)",
  async (seed) => {
    const plays = await checkEveryCommit(programOf(seed, 3), (commit) => [
      { commit, when: commit % 2 === 0 ? "before" : "after" },
    ])
    expect(plays).toBeGreaterThan(10)
  },
)
