import { existsSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { REPO } from "../support/ork.ts"
import { PLANTED_BUGS } from "./all.ts"
import { editProblem } from "./planted-bug.ts"
import { POSTGRES_BUGS } from "./postgres.ts"

test.each(PLANTED_BUGS)("the planted bug $name applies to the current code", ({ edits, foundBy }) => {
  expect(edits.map((edit) => editProblem(REPO, edit)).filter((problem) => problem !== null)).toEqual([])
  expect(edits.length).toBeGreaterThan(0)
  if ("tests" in foundBy) expect(existsSync(join(REPO, foundBy.tests[0]!))).toBe(true)
})

test("planted bugs have unique names", () => {
  expect(new Set(PLANTED_BUGS.map(({ name }) => name)).size).toBe(PLANTED_BUGS.length)
})

test("at least fifteen bugs are planted in the Postgres store", () => {
  const inPostgres = POSTGRES_BUGS.filter(({ edits }) => edits.every(({ file }) => file.startsWith("src/store/postgres/")))
  expect(inPostgres.length).toBeGreaterThanOrEqual(15)
})
