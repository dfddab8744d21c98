import { expect, test } from "vitest"
import { SeenTokens } from "./seen-tokens.ts"

const START = 1_000_000
const setup = (most?: number) => new SeenTokens(START * 1000, most)

test("a token is known for as long as its proof could be sent again", () => {
  const seen = setup()
  seen.add("a", START, START * 1000)
  seen.add("b", START + 300, (START + 300) * 1000)
  expect([seen.has("a"), seen.tooOld(START)]).toEqual([true, false])
  seen.add("c", START + 301, (START + 301) * 1000)
  expect([seen.has("a"), seen.tooOld(START)], "forgotten, but its proof holds no more").toEqual([false, true])
  expect([seen.has("b"), seen.tooOld(START + 300)]).toEqual([true, false])
})

test("with too many tokens the oldest go, and proofs as old as they are refused", () => {
  const seen = setup(2)
  for (const [i, token] of ["a", "b", "c"].entries()) seen.add(token, START + i, START * 1000)
  expect(["a", "b", "c"].map((token) => seen.has(token))).toEqual([false, true, true])
  expect([seen.tooOld(START), seen.tooOld(START + 1)]).toEqual([true, false])
})

test("what was proven before the worker began is refused: the one before it may have run it", () => {
  expect([setup().tooOld(START - 1), setup().tooOld(START)]).toEqual([true, false])
})
