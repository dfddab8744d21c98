import { expect, test } from "vitest"
import { findRun } from "./find-run.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

const id = (tail: string): string => `01900000-0000-7000-8000-${tail.padStart(12, "0")}`

/** A store that lists these runs, newest first. */
const setup = (...runs: { id: string; private?: boolean }[]): Store => {
  const rows = runs.map((run) => ({ private: true, createdAt: "", ...run })) as unknown as RunRow[]
  return {
    getRun: (wanted: string) => Promise.resolve(rows.find((run) => run.id === wanted) ?? null),
    listRuns: ({ limit, before }: { limit: number; before?: { id: string } }) => {
      const from = before === undefined ? 0 : rows.findIndex((run) => run.id === before.id) + 1
      return Promise.resolve(rows.slice(from, from + limit))
    },
  } as unknown as Store
}

test("a run is found by its id, by the beginning of it, and as the latest", async () => {
  const store = setup({ id: id("b20") }, { id: id("b10") })
  expect((await findRun(store, id("b10"))).id).toBe(id("b10"))
  expect((await findRun(store, id("b10").slice(0, -1))).id).toBe(id("b10"))
  expect((await findRun(store, "latest")).id).toBe(id("b20"))
})

test("the beginning of an id is also matched beyond the first page", async () => {
  const many = Array.from({ length: 1200 }, (_, i) => ({ id: id((5000 - i).toString(16)) }))
  const last = { id: "00000000-0000-7000-8000-000000000000" }
  expect((await findRun(setup(...many, last), "0000")).id).toBe(last.id)
})

test("with privateOnly, the latest run is one that `ork run` created", async () => {
  const store = setup({ id: id("2"), private: false }, { id: id("1") })
  expect((await findRun(store, "latest", true)).id).toBe(id("1"))
  expect((await findRun(store, "latest")).id).toBe(id("2"))
})

test.each([
  [id("99"), "there is no run"],
  ["019", "more than one run begins with 019; give more of its id"],
  ["abc", "there is no run abc; `ork runs` lists the runs"],
  ["%", "there is no run %"],
])("%s is rejected", async (text, message) => {
  await expect(findRun(setup({ id: id("2") }, { id: id("1") }), text)).rejects.toThrow(message)
})

test("a store without runs has no latest run", async () => {
  await expect(findRun(setup(), "latest")).rejects.toThrow("there is no run yet")
})
