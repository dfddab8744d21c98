import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("the first hour has no failed step", { timeout: 600_000 }, async () => {
  const { code, printed } = await runSlice("first-hour", [])
  expect(printed).toMatch(
    /^\d+ steps: 42 workflows imported, \d+ lines reported, \d+ runs, 3 failures explained and fixed, 0 steps failed, in \d+ s$/m,
  )
  expect(code).toBe(0)
})
