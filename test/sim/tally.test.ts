import { expect, test } from "vitest"
import { Tally } from "./tally.ts"

const passed = (seed: number) => ({ seed, launches: 2, failure: null })
const failed = (seed: number) => ({ ...passed(seed), failure: { invariant: "", message: "", tail: [], state: [] } })

test("a campaign ends with its tries and violations", () => {
  const tally = new Tally({ from: 1, every: 1 })
  tally.add(passed(1))
  tally.add(failed(2))
  expect(tally.violations).toBe(1)
  expect(tally.summary(2)).toBe("sim: 2 tries, 1 violations, 4 launches, 1.0 seeds a second")
})

test("progress is printed every 1,000 seeds, with the last seed before which all have ended", () => {
  const tally = new Tally({ from: 5000, every: 10 })
  const seeds = Array.from({ length: 1001 }, (_, i) => 5000 + 10 * i)
  const [first, second, slow, ...others] = seeds
  const lines = [first!, second!, ...others].map((seed) => tally.add(passed(seed)))
  expect(lines.filter((line) => line !== null)).toEqual([
    "progress: 1000 tries, 0 violations, every seed from 5000 to 5010 has ended",
  ])
  for (let i = 1001; i < 2000; i++) tally.add(passed(i === 1001 ? slow! : 15_000 + (i - 1001) * 10))
  expect(tally.add(passed(24_990))).toBe("progress: 2000 tries, 0 violations, every seed from 5000 to 24990 has ended")
})
