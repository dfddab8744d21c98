// Compares plays of a program that crash with the one that does not.

import { expect } from "vitest"
import { type Crash, type Op, play, type Played } from "./programs.ts"

/** Crashes a program at every commit, before and after it. Returns the number of plays. */
export const checkEveryCommit = async (
  program: readonly Op[],
  more: (commit: number) => Crash[] = () => [],
): Promise<number> => {
  const expected = await play(program)
  let plays = 0
  for (const when of ["before", "after"] as const) {
    for (let commit = 1; ; commit++) {
      const crashes = [{ commit, when }, ...more(commit)]
      const played = await play(program, crashes)
      if (played.crashes === 0) break
      check(played, expected, JSON.stringify({ program, crashes }))
      plays++
    }
  }
  return plays
}

const check = (played: Played, expected: Played, what: string): void => {
  expect(played.result, what).toEqual(expected.result)
  expect(played.rows, `rows of ${what}`).toEqual(expected.rows)
  expect(played.children, `children of ${what}`).toBe(expected.children)
  expect([...played.effects.keys()].toSorted(), `steps of ${what}`).toEqual([...expected.effects.keys()].toSorted())
  for (const [path, count] of played.effects) {
    const once = expected.effects.get(path)!
    expect(count, `effects of step ${path} of ${what}`).toBeGreaterThanOrEqual(once)
    expect(count, `effects of step ${path} of ${what}`).toBeLessThanOrEqual(once + played.crashes)
  }
}
