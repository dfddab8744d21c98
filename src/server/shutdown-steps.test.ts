import { expect, test } from "vitest"
import { takeSteps } from "./shutdown-steps.ts"
import { systemClock } from "../engine/system.ts"

test("a part that fails and one that never ends are told, and what comes after them ends too", async () => {
  const done: string[] = []
  const told: [object, string][] = []
  const log = { info: () => {}, warn: () => {}, error: (fields: object, text: string) => void told.push([fields, text]) }
  await takeSteps(
    [
      { part: "good", end: () => void done.push("good") },
      { part: "bad", end: () => Promise.reject(new Error("no store")) },
      {
        part: "worse",
        end: () => {
          throw new Error("a bug")
        },
      },
      { part: "endless", end: () => new Promise<void>(() => {}), withinMs: 50, force: () => void done.push("forced") },
      { part: "last", end: async () => void done.push("last"), force: () => void done.push("never") },
    ],
    { clock: systemClock, log },
  )
  expect(done).toEqual(["good", "forced", "last"])
  expect(told).toEqual([
    [{ part: "bad", error: "Error: no store" }, "a part of the server did not end as it should"],
    [{ part: "worse", error: "Error: a bug" }, "a part of the server did not end as it should"],
    [{ part: "endless", seconds: 0.05 }, "a part of the server did not end in time; going on without it"],
  ])
})
