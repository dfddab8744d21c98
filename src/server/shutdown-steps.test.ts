import { expect, test } from "vitest"
import { runShutdownSteps } from "./shutdown-steps.ts"
import { systemClock } from "../engine/system.ts"

test("a part that fails or never stops is logged, and later parts are stopped too", async () => {
  const done: string[] = []
  const logged: [object, string][] = []
  const log = { info: () => {}, warn: () => {}, error: (fields: object, text: string) => void logged.push([fields, text]) }
  await runShutdownSteps(
    [
      { part: "good", stop: () => void done.push("good") },
      { part: "bad", stop: () => Promise.reject(new Error("no store")) },
      {
        part: "worse",
        stop: () => {
          throw new Error("a bug")
        },
      },
      { part: "endless", stop: () => new Promise<void>(() => {}), timeoutMs: 50, force: () => void done.push("forced") },
      { part: "last", stop: async () => void done.push("last"), force: () => void done.push("never") },
    ],
    { clock: systemClock, log },
  )
  expect(done).toEqual(["good", "forced", "last"])
  expect(logged).toEqual([
    [{ part: "bad", error: "Error: no store" }, "failed to stop a part of the server"],
    [{ part: "worse", error: "Error: a bug" }, "failed to stop a part of the server"],
    [{ part: "endless", seconds: 0.05 }, "a part of the server did not stop in time; continuing without it"],
  ])
})
