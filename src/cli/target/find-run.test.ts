import { expect, test } from "vitest"
import { findRun } from "./find-run.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

const id = (tail: string): string => `01900000-0000-7000-8000-${tail.padStart(12, "0")}`

/** Returns a store that lists these runs, newest first. */
const setup = (...runs: { id: string; private?: boolean; workflow?: string; number?: number }[]): Store => {
  const rows = runs.map((run) => ({ private: true, createdAt: "", workflow: "etl", ...run })) as unknown as RunRow[]
  return {
    getRun: (wanted: string) => Promise.resolve(rows.find((run) => run.id === wanted) ?? null),
    findRunId: ({ workflow, number }: { workflow: string; number: number }) =>
      Promise.resolve(rows.find((run) => run.workflow === workflow && run.number === number)?.id ?? null),
    listRuns: ({ limit, before, workflow }: { limit: number; before?: { id: string }; workflow?: string }) => {
      const from = before === undefined ? 0 : rows.findIndex((run) => run.id === before.id) + 1
      return Promise.resolve(
        rows.filter((run) => workflow === undefined || run.workflow === workflow).slice(from, from + limit),
      )
    },
  } as unknown as Store
}

test("a run is found by its id, by the beginning of it, and as the latest", async () => {
  const store = setup({ id: id("b20") }, { id: id("b10") })
  expect((await findRun(store, id("b10"))).id).toBe(id("b10"))
  expect((await findRun(store, id("b10").slice(0, -1))).id).toBe(id("b10"))
  expect((await findRun(store, "latest")).id).toBe(id("b20"))
})

test("a run is found by its number, by its short id, and by its workflow as the latest one", async () => {
  const store = setup(
    { id: id("b30"), workflow: "other", number: 1 },
    { id: id("a000000b20"), workflow: "etl", number: 2 },
    { id: id("b10"), workflow: "etl", number: 1 },
    { id: id("b00"), workflow: "beef", number: 1 },
  )
  expect((await findRun(store, "etl#1")).id).toBe(id("b10"))
  expect((await findRun(store, "00000b20")).id).toBe(id("a000000b20"))
  expect((await findRun(store, "etl")).id).toBe(id("a000000b20"))
  expect((await findRun(store, "beef")).id).toBe(id("b00"))
  await expect(findRun(store, "etl#3")).rejects.toThrow("there is no run etl#3")
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
