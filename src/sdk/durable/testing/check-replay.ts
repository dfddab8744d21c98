// Compares plays of a program that crash with the one that does not.

import { expect } from "vitest"
import { type Crash, type Op, play, type Played } from "./programs.ts"

/** Plays a program once for each of its commits, with the crashes that `crashesAt` returns for it. Returns the number of plays. */
export const checkEveryCommit = async (program: readonly Op[], crashesAt: (commit: number) => Crash[]): Promise<number> => {
  const expected = await play(program)
  for (let commit = 1; ; commit++) {
    const crashes = crashesAt(commit)
    const played = await play(program, crashes)
    if (played.crashes === 0) return commit - 1
    check(played, expected, JSON.stringify({ program, crashes }))
  }
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
