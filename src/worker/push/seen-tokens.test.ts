import { expect, test } from "vitest"
import { SeenTokens } from "./seen-tokens.ts"

const START = 1_000_000
const setup = (maxTokens?: number) => new SeenTokens(START * 1000, maxTokens)

test("a token is remembered as long as its proof is valid", () => {
  const seen = setup()
  seen.add("a", START, START * 1000)
  seen.add("b", START + 300, (START + 300) * 1000)
  expect([seen.has("a"), seen.tooOld(START)]).toEqual([true, false])
  seen.add("c", START + 301, (START + 301) * 1000)
  expect([seen.has("a"), seen.tooOld(START)], "forgotten, but its proof is not valid any more").toEqual([false, true])
  expect([seen.has("b"), seen.tooOld(START + 300)]).toEqual([true, false])
})

test("with too many tokens the oldest are dropped, and proofs of their time are rejected", () => {
  const seen = setup(2)
  for (const [i, token] of ["a", "b", "c"].entries()) seen.add(token, START + i, START * 1000)
  expect(["a", "b", "c"].map((token) => seen.has(token))).toEqual([false, true, true])
  expect([seen.tooOld(START), seen.tooOld(START + 1)]).toEqual([true, false])
})

test("a proof from before the worker started is rejected: an earlier process may have run its task", () => {
  expect([setup().tooOld(START - 1), setup().tooOld(START)]).toEqual([true, false])
})
