import { describe, expect, it } from "vitest"
import { decideResume, decideStart, type RunHold } from "./startable.ts"

const RUNNING: RunHold = { status: "running", cancelling: null, paused: false }
const PAUSED: RunHold = { ...RUNNING, paused: true }

const TASK = { kind: "task", childrenCreated: 0, childrenPending: null } as const
const UNOPENED = { kind: "fan", childrenCreated: 0, childrenPending: null } as const
const HALF_CREATED = { kind: "group", childrenCreated: 2, childrenPending: 3 } as const
const TO_GATHER = { kind: "fan", childrenCreated: 2, childrenPending: 0 } as const

describe("a ready row", () => {
  it.each([
    ["a task of a running run", RUNNING, TASK, "claim"],
    ["a task of a paused run", PAUSED, TASK, "park"],
    ["a container to gather in a paused run", PAUSED, TO_GATHER, "park"],
    ["a task of a run that is being cancelled", { ...RUNNING, cancelling: "cancel" }, TASK, "leave"],
    ["a task of a paused run that is being cancelled", { ...PAUSED, cancelling: "cancel" }, TASK, "leave"],
    ["an unopened container of a run that timed out", { ...RUNNING, cancelling: "timeout" }, UNOPENED, "leave"],
    ["a half created container of a run that is being cancelled", { ...RUNNING, cancelling: "cancel" }, HALF_CREATED, "leave"],
    ["a container to gather in a run that is being cancelled", { ...PAUSED, cancelling: "cancel" }, TO_GATHER, "claim"],
    ["a hook, whose run has closed", { ...RUNNING, status: "failed" }, TASK, "claim"],
  ] as const)("%s", (_, run, row, expected) => {
    expect(decideStart(run, row)).toBe(expected)
  })
})

describe("a waiting row that is due", () => {
  it.each([
    ["of a running run is resumed", RUNNING, false, "claim"],
    ["of a paused run is parked", PAUSED, false, "park"],
    ["that must end is resumed in a paused run", PAUSED, true, "claim"],
    ["of a paused run that is being cancelled is resumed", { ...PAUSED, cancelling: "cancel" }, false, "claim"],
  ] as const)("%s", (_, run, mustEnd, expected) => {
    expect(decideResume(run, { mustEnd })).toBe(expected)
  })
})
