import { expect, test } from "vitest"
import type { Execution } from "./shapes.ts"
import { outcomeOf, phaseOf } from "./classify.ts"

const FAILED: Execution = {
  conditions: [{ type: "Completed", state: "CONDITION_FAILED", message: "Task failed." }],
  completionTime: "1970-01-01T00:00:01Z",
  failedCount: 1,
}

test.each<[string, Execution, string]>([
  ["without any field", {}, "waiting"],
  ["that is prepared", { conditions: [{ type: "Completed", state: "CONDITION_RECONCILING" }] }, "waiting"],
  ["with a running task", { runningCount: 1 }, "running"],
  ["that succeeded", { conditions: [{ type: "Completed", state: "CONDITION_SUCCEEDED" }] }, "success"],
  ["that ended without a condition", { completionTime: "1970-01-01T00:00:01Z", succeededCount: 1 }, "success"],
  ["that ended without a condition or a success", { completionTime: "1970-01-01T00:00:01Z", failedCount: 1 }, "failed"],
  ["that failed", FAILED, "failed"],
  ["with a cancelled task", { ...FAILED, failedCount: 0, cancelledCount: 1 }, "cancelled"],
])("an execution %s is classified as its phase", (_, execution, phase) => {
  expect(phaseOf(execution)).toBe(phase)
})

test("the outcome names the task's reason: memory, time, a signal, or only the exit code", () => {
  const outcome = (result: object) => outcomeOf(FAILED, { lastAttemptResult: result })
  const memory = "Memory limit of 512 MiB exceeded with 530 MiB used."
  expect(outcome({ exitCode: 137, status: { message: memory } })).toMatchObject({
    state: "failed",
    error: `exit code 137: ${memory}`,
  })
  expect(outcome({ status: { message: "The configured timeout was reached." } })).toMatchObject({ state: "timeout" })
  expect(outcome({ termSignal: 11 })).toMatchObject({ state: "failed", error: "killed by SIGSEGV" })
  expect(outcome({ exitCode: 2, status: { message: "The container exited with an error." } })).toMatchObject({
    error: "exit code 2",
  })
  expect(outcomeOf(FAILED, null)).toMatchObject({ state: "failed", error: "Task failed.", exitCode: null })
})
