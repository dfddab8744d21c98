// Tests the same as replay.test.ts, with new programs each time, crashes before and after each commit, and a second crash.
// ORK_REPLAY_SEED plays the programs of a seed again.

import { randomInt } from "node:crypto"
import { expect, it } from "vitest"
import { seededRandom } from "../../store/conformance/world.ts"
import { checkEveryCommit } from "./testing/check-replay.ts"
import { type Crash, programOf } from "./testing/programs.ts"

const SEED = Number(process.env["ORK_REPLAY_SEED"] ?? randomInt(2 ** 31))
const PROGRAMS = 20

it.each(Array.from({ length: PROGRAMS }, (_, i) => SEED + i))(
  `a program that crashes at any commit gives the same result (ORK_REPLAY_SEED=${SEED}, program %i)`,
  { timeout: 300_000 },
  async (seed) => {
    const { next } = seededRandom(seed)
    const second = (): Crash => ({ commit: 1 + Math.floor(next() * 10), when: "after" })
    const program = programOf(seed, 4)
    for (const when of ["before", "after"] as const)
      expect(await checkEveryCommit(program, (commit) => [{ commit, when }, second()])).toBeGreaterThan(0)
  },
)
