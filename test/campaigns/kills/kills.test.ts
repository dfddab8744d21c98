// A slice of `npm run kills`.

import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("nothing acknowledged is lost and nothing runs twice when the server and the worker are killed on SQLite", async () => {
  const { code, printed } = await runSlice("kills", ["--kills", "6", "--store", "sqlite"])
  expect(printed).toMatch(/^[1-9]\d* kills, 0 violations$/m)
  expect(code).toBe(0)
}, 120_000)
