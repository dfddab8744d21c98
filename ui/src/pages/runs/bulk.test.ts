import { expect, test } from "vitest"
import type { Run, RunStatus } from "../../api/types.ts"
import { fitFor, forAll } from "./bulk.ts"

const runs = (["pending", "running", "success", "failed", "cancelled"] as const satisfies RunStatus[]).map(
  (status) => ({ id: status, status }) as Run,
)

test("unfinished runs can be cancelled, runs without success can be retried", () => {
  expect(fitFor("cancel", runs).map((run) => run.id)).toEqual(["pending", "running"])
  expect(fitFor("retry", runs).map((run) => run.id)).toEqual(["failed", "cancelled"])
})

test("every run is tried, a few at a time, and failures are reported", async () => {
  let busy = 0
  let most = 0
  const result = await forAll(["a", "b", "c", "d", "e", "f"], async (id) => {
    busy += 1
    most = Math.max(most, busy)
    await Promise.resolve()
    busy -= 1
    if (id === "c") throw new Error("no")
  })
  expect([result.done, result.failed.map((each) => each.id), most]).toEqual([5, ["c"], 4])
})
