// Deployed workflows, their versions and their schedules, as people see and change them.

import type { RunId } from "../../core/model/ids.ts"
import type { CompiledWorkflow, ScheduleSpec } from "../../core/model/workflow.ts"
import type { RunStatus } from "../../core/model/status.ts"
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
}

/** One schedule of a deployed workflow. `position` is its place in the definition's list. */
export interface ScheduleRow {
  id: number
  workflowId: number
  workflow: string
  versionId: number
  position: number
  spec: ScheduleSpec
  paused: boolean
  /** null: no further tick. */
  nextAt: string | null
  lastTickAt: string | null
}

/** One tick to fire: taken only while the schedule's nextAt is still `expected`, so two servers cannot both fire it. */
export interface Tick {
  scheduleId: number
  expected: string
  /** The tick itself; its key (schedule, tick) is kept for ever and makes a second run of it impossible. */
  tick: string
  nextAt: string | null
  /** null: the tick is passed over (overlap skip, too late): the key is kept, no run is made. */
  run: NewRun | null
}

export interface Catalog {
  /** By name; `lastRuns` newest first, at most `runs` of each. */
  listWorkflows(query: { search?: string; tag?: string; after?: string; limit: number; runs: number }): Promise<
    {
      workflow: WorkflowRow
      lastRuns: { id: RunId; status: RunStatus; createdAt: string; startedAt: string | null; finishedAt: string | null }[]
      nextAt: string | null
    }[]
  >
  /** null: not deployed. */
  getWorkflow(name: string): Promise<WorkflowRow | null>
  listVersions(query: { name: string; before?: number; limit: number }): Promise<VersionRow[]>
  /** Of these bundles, those that a version names. */
  bundlesInUse(hashes: string[]): Promise<string[]>
  /** No longer deployed, its schedules gone; its runs stay. False: was not deployed. */
  removeWorkflow(name: string): Promise<boolean>
  /** Its schedules rest; with `false` each goes on with the `nextAt` given. False: not deployed. */
  setWorkflowPaused(input: { name: string; paused: boolean; nextAt: (string | null)[] }): Promise<boolean>

  listSchedules(query: { workflow?: string; after?: number; limit: number }): Promise<ScheduleRow[]>
  /** Schedules whose next tick is due, earliest first. */
  dueSchedules(limit: number): Promise<ScheduleRow[]>
  /** Milliseconds until the next tick is due, or null. Reads one index entry. */
  nextTickMs(): Promise<number | null>
  /** One transaction; each tick by itself conditional. `fired: false`: somebody else did. */
  fireTicks(ticks: Tick[]): Promise<{ fired: boolean; run: RunRow | null }[]>
  /** Runs of a schedule that have not ended, oldest first. */
  activeRunsOf(scheduleId: number): Promise<RunRow[]>
}
