import { expect, test } from "vitest"
import type { Execution } from "./shapes.ts"
import { endingOf, phaseOf } from "./classify.ts"

const FAILED: Execution = {
  conditions: [{ type: "Completed", state: "CONDITION_FAILED", message: "Task failed." }],
  completionTime: { seconds: 1 },
  failedCount: 1,
}

test.each<[string, Execution, string]>([
  ["nothing said yet", {}, "waiting"],
  ["being made ready", { conditions: [{ type: "Completed", state: "CONDITION_RECONCILING" }] }, "waiting"],
  ["a task that runs", { runningCount: 1 }, "running"],
  ["completed well", { conditions: [{ type: "Completed", state: "CONDITION_SUCCEEDED" }] }, "success"],
  ["an end without a condition", { completionTime: { seconds: 1 }, succeededCount: 1 }, "success"],
  ["an end without a condition or a success", { completionTime: { seconds: 1 }, failedCount: 1 }, "failed"],
  ["failed", FAILED, "failed"],
  ["cancelled by its count", { ...FAILED, failedCount: 0, cancelledCount: 1 }, "cancelled"],
])("%s", (_, execution, phase) => {
  expect(phaseOf(execution)).toBe(phase)
})

test("the task tells why: memory, time, a signal, or nothing but the code", () => {
  const ending = (result: object) => endingOf(FAILED, { lastAttemptResult: result })
  const memory = "Memory limit of 512 MiB exceeded with 530 MiB used."
  expect(ending({ exitCode: 137, status: { message: memory } })).toMatchObject({
    state: "failed",
    error: `exit code 137: ${memory}`,
  })
  expect(ending({ status: { message: "The configured timeout was reached." } })).toMatchObject({ state: "timeout" })
  expect(ending({ termSignal: 11 })).toMatchObject({ state: "failed", error: "killed by SIGSEGV" })
  expect(ending({ exitCode: 2, status: { message: "The container exited with an error." } })).toMatchObject({
    error: "exit code 2",
  })
  expect(endingOf(FAILED, null)).toMatchObject({ state: "failed", error: "Task failed.", exitCode: null })
})
