// A slice of `npm run outages`.

import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("every run and every tick happens once while Postgres restarts and its connections break", async () => {
  const { code, printed } = await runSlice("outages", [
    "--only",
    "postgres",
    "--minutes",
    "0.1",
    "--runs",
    "10",
    "--in-flight",
    "8",
    "--servers",
    "2",
  ])
  expect(printed).toMatch(/^[1-9]\d* outages, 0 violations$/m)
  expect(code).toBe(0)
}, 120_000)
