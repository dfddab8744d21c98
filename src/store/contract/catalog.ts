// Deployed workflows, their versions and schedules: reads and changes for the API.

import type { CompiledWorkflow, ScheduleSpec } from "../../core/model/workflow.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Limited } from "../../core/rules/access/permissions.ts"
import type { NewRun, RunRow } from "./store.ts"

export interface WorkflowRow {
  id: number
  name: string
  version: number
  versionId: number
  hash: string
  source: string
  compiled: CompiledWorkflow
  paused: boolean
  createdAt: string
  updatedAt: string
}

export interface VersionRow {
  version: number
  versionId: number
  hash: string
  source: string
  createdAt: string
  /** Name of the key or user that deployed it first; null: unknown. */
  createdBy: string | null
}

/** Schedule of a deployed workflow. `position`: index in the definition. */
export interface ScheduleRow {
  id: number
  workflowId: number
  workflow: string
  versionId: number
  position: number
  spec: ScheduleSpec
  paused: boolean
  /** null: the schedule has no further tick. */
  nextAt: string | null
  lastTickAt: string | null
}

/** Tick to fire. It fires only while the schedule's `nextAt` is `expected`, so that one of several servers fires it. */
export interface Tick {
  scheduleId: number
  expected: string
  /** Instant of the tick. Its key (schedule, tick) is kept for ever, so that no second run is created for it. */
  tick: string
  nextAt: string | null
  /** null: the tick is skipped. Its key is stored with the reason, but no run is created. */
  run: NewRun | null
  skipped: string | null
}

/** A tick that created no run. */
export interface SkippedTick {
  tick: string
  reason: string
}

export interface Catalog {
  /** Lists deployed workflows by name, each with at most `runs` runs, newest first. */
  listWorkflows(query: Limited & { search?: string; tag?: string; after?: string; limit: number; runs: number }): Promise<
    {
      workflow: WorkflowRow
      lastRuns: Pick<RunRow, "id" | "number" | "status" | "createdAt" | "startedAt" | "finishedAt" | "idleMs">[]
      nextAt: string | null
    }[]
  >
  /** Returns null when the workflow is not deployed. */
  getWorkflow(name: string): Promise<WorkflowRow | null>
  /** Returns the tags with which a workflow was deployed last, also when it was removed since; null when it is unknown. */
  getTags(workflow: string): Promise<string[] | null>
  listVersions(query: { name: string; before?: number; limit: number }): Promise<VersionRow[]>
  /** Returns those of these bundles that a version uses. */
  bundlesInUse(hashes: string[]): Promise<string[]>
  /** Undeploys a workflow and deletes its schedules; its runs stay. Returns false when it was not deployed. */
  removeWorkflow(name: string): Promise<boolean>
  /** Pauses or resumes the schedules; resumed ones continue at `nextAt`. Returns false when the workflow is not deployed. */
  setWorkflowPaused(input: { name: string; paused: boolean; nextAt: (string | null)[] }): Promise<boolean>

  listSchedules(query: Limited & { workflow?: string; after?: number; limit: number }): Promise<ScheduleRow[]>
  /** Returns the epoch milliseconds of the store's clock: the database's, so that all servers agree about ticks. */
  currentTime(): Promise<number>
  /** Lists schedules whose next tick is due, earliest first. */
  dueSchedules(limit: number): Promise<ScheduleRow[]>
  /** Returns the milliseconds until the next tick is due, or null. Reads one index entry. */
  nextTickMs(): Promise<number | null>
  /** Fires ticks in one transaction. `fired: false`: another server has fired the tick, or the schedule has changed. */
  fireTicks(ticks: Tick[]): Promise<{ fired: boolean; run: RunRow | null }[]>
  /** Lists active schedules whose last tick is in the future: the clock was set back after it fired. */
  schedulesAhead(): Promise<ScheduleRow[]>
  /** Sets the next tick of schedules whose next tick is still `expected`. Ticks that have fired do not fire again. */
  moveSchedules(moves: { scheduleId: number; expected: string; nextAt: string }[]): Promise<void>
  /** Lists runs of a schedule that are not closed, oldest first. */
  activeRunsOf(scheduleId: number): Promise<RunRow[]>
  /** Returns the run of the last tick of a schedule that created one; null: none has. */
  lastTickRun(schedule: Pick<ScheduleRow, "workflowId" | "position" | "spec">): Promise<RunId | null>
  /** Lists the last skipped ticks of a schedule, newest first. */
  listSkippedTicks(schedule: Pick<ScheduleRow, "workflowId" | "position" | "spec">, limit: number): Promise<SkippedTick[]>
}
