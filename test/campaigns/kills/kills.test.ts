// A slice of `npm run kills`: one world of servers on SQLite, and one of `ork run` on Postgres.

import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("nothing acknowledged is lost and nothing runs twice when the server and the worker are killed on SQLite", async () => {
  const { code, printed } = await runSlice("kills", ["--kills", "6", "--store", "sqlite", "--only", "servers"])
  expect(printed).toMatch(/^[1-9]\d* kills, 0 violations$/m)
  expect(code).toBe(0)
}, 120_000)

test("a run of `ork run` on Postgres continues where it was killed", async () => {
  const { code, printed } = await runSlice("kills", ["--kills", "2", "--store", "postgres", "--only", "run"])
  expect(printed).toMatch(/^[1-9]\d* kills, 0 violations$/m)
  expect(code).toBe(0)
}, 120_000)
