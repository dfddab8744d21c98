// A slice of `npm run soak`.

import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("two servers and a worker under load survive a fault every 10 s", async () => {
  const { code, printed } = await runSlice("soak", ["--minutes", "1"])
  expect(printed).toMatch(/^[1-9]\d* faults, 0 violations$/m)
  expect(code).toBe(0)
}, 300_000)
