// A larger slice of `npm run kills`, with one world of each kind.

import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("nothing acknowledged is lost and nothing runs twice in worlds of servers and of `ork run`, on both stores", async () => {
  const { code, printed } = await runSlice("kills", ["--kills", "40", "--world-kills", "10"])
  expect(printed.match(/^(sqlite|postgres), .*: [1-9]\d* kills/gm)).toHaveLength(4)
  expect(printed).toMatch(/^[1-9]\d* kills, 0 violations$/m)
  expect(code).toBe(0)
}, 600_000)
