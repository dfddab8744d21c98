// Builders of runs for tests.

import type { OrkEvent, RunGraph, TaskStatus } from "../api/types.ts"
import { noCounts, newState, type RunState } from "./state.ts"

export interface TaskInput {
  after?: string[]
  group?: string
  fan?: boolean
  executor?: string
  status?: TaskStatus
  hook?: boolean
}

export const graphOf = (tasks: Record<string, TaskInput>): RunGraph => ({
  run_id: "run",
  workflow: "test",
  version: 1,
  durable: false,
  tasks: Object.entries(tasks).map(([name, task]) => ({
    name,
    executor: task.executor ?? "process",
    depends_on: task.after ?? [],
    group: task.group ?? null,
    hook: task.hook === true ? "on_exit" : null,
    run_when: "all_success",
    if: null,
    continue_on_error: false,
    fan_out: task.fan === true ? "items" : null,
    queue: "default",
    max_attempts: 1,
    status: task.status ?? "pending",
    counts: noCounts(),
    started_at: null,
    finished_at: null,
  })),
})

/** Returns a loaded run with instances `name` or `name[path]` and their statuses. */
export const stateOf = (tasks: Record<string, TaskInput>): RunState => newState(graphOf(tasks))

export const at = (seconds: number): string => new Date(seconds * 1000).toISOString()

export const taskEvent = (task: string, status: TaskStatus, seconds: number, more: Partial<OrkEvent> = {}): OrkEvent => ({
  event: "task",
  run_id: "run",
  task,
  index: null,
  path: "",
  attempt: 1,
  status,
  at: at(seconds),
  ...more,
})

export const runEvent = (status: OrkEvent["status"], seconds: number): OrkEvent => ({
  ...taskEvent("", "pending", seconds),
  event: "run",
  task: null,
  path: null,
  attempt: null,
  status,
})
