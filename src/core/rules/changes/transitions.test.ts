import { describe, expect, it } from "vitest"
import type { Change } from "../../model/change.ts"
import type { RowKind } from "../../model/row.ts"
import { TASK_STATUSES, isTaskFinished, type TaskStatus } from "../../model/status.ts"
import { isLegal, TRANSITIONS } from "./transitions.ts"

const KINDS = Object.keys(TRANSITIONS) as Change["kind"][]

const state = (kind: RowKind, status: TaskStatus, isWaiting = false) => ({ kind, status, isWaiting })

describe("legal transitions", () => {
  it.each(KINDS)("%s never applies to a finished row", (change) => {
    for (const kind of ["task", "fan", "group"] as const)
      for (const status of TASK_STATUSES.filter(isTaskFinished)) expect(isLegal(change, state(kind, status))).toBe(false)
  })

  it.each([
    ["started", ["dispatched", "running"]],
    ["progress", ["dispatched", "running"]],
    ["finish", ["dispatched", "running"]],
    ["retry", ["dispatched", "running"]],
    ["wait", ["pending", "dispatched", "running"]],
    ["release", ["pending", "dispatched"]],
    ["enqueue", ["pending"]],
    ["skip", ["pending"]],
    ["fail", ["pending"]],
    ["reuse", ["pending"]],
    ["expand", []],
    ["open_group", []],
    ["gather", []],
  ] as const)("%s applies to a task that is one of %j", (change, from) => {
    expect(TASK_STATUSES.filter((status) => isLegal(change, state("task", status)))).toEqual(from)
  })

  it.each([
    ["fan", ["release", "skip", "fail", "reuse", "expand", "gather"]],
    ["group", ["release", "skip", "fail", "reuse", "open_group", "gather"]],
  ] as const)("a pending %s accepts only %j", (kind, changes) => {
    expect(KINDS.filter((change) => isLegal(change, state(kind, "pending")))).toEqual(changes)
  })

  it("a running task is released only while it waits, since it then holds no slot", () => {
    expect(isLegal("release", state("task", "running"))).toBe(false)
    expect(isLegal("release", state("task", "running", true))).toBe(true)
  })
})
