// Triggers of deployed workflows. The transaction that closes a successful run records the success for every trigger that waits for its
// workflow; engine/services/triggers.ts turns successes into runs. The transaction that creates the run removes them, so that each success
// causes one run at most, and none is lost.

import type { AfterTrigger, PathTrigger, TriggerSpec } from "../../core/model/workflow.ts"
import type { NewRun, RunRow } from "./store.ts"

/** Trigger of a deployed workflow. `position`: index in the definition. */
export interface TriggerRow {
  id: number
  workflowId: number
  workflow: string
  versionId: number
  position: number
  spec: TriggerSpec
  paused: boolean
  /** Why it created no run the last time that it was to create one; null: it did. */
  problem: string | null
}

/** Trigger that follows other workflows. */
export interface AfterTriggerRow extends TriggerRow {
  spec: AfterTrigger
}

/** A successful run of another workflow, recorded for a trigger. */
export interface UpstreamSuccess {
  id: number
  workflow: string
  runId: string
  logicalDate: string | null
  timezone: string | null
}

/** Successes of a trigger to remove, and what becomes of them. Applies only while all of them exist. */
export interface SuccessUse {
  triggerId: number
  successes: number[]
  /** The run that they cause. A problem: they cause none. null: newer successes of the same workflows replace them. */
  outcome: { run: NewRun } | { problem: string } | null
}

export interface TriggerStore {
  /** Lists the triggers of a deployed workflow, in the order of its definition. */
  listTriggers(workflow: string): Promise<TriggerRow[]>
  /** Lists triggers for which successes are recorded, by id. */
  triggersWithSuccesses(query: { after: number; limit: number }): Promise<AfterTriggerRow[]>
  /** Lists the recorded successes of a trigger, oldest first. */
  successesOf(triggerId: number, limit: number): Promise<UpstreamSuccess[]>
  /** Uses successes in one transaction. Returns the created run of each use; null: none, or another server has used a success. */
  useSuccesses(uses: readonly SuccessUse[]): Promise<(RunRow | null)[]>
}

/** Trigger on files or objects. `since`: when its pattern was deployed; what was written before is not new. */
export interface PathTriggerRow extends TriggerRow {
  spec: PathTrigger
  since: string
}

/** `version` names the content: a file that was written again is new. */
export interface FileVersion {
  path: string
  version: string
}

/** A file to record, with the run that it causes, or the problem why it causes none. */
export interface RecordedFile extends FileVersion {
  outcome: { run: NewRun } | { problem: string }
}

/** `id`: the trigger. */
export interface WatchedPath {
  id: number
  workflowId: number
  pattern: string
}

/** A file is recorded in the transaction that creates its run, so that it causes one run across servers and restarts. */
export interface PathTriggerStore {
  /** Lists the triggers on paths that are not paused. */
  pathTriggers(): Promise<PathTriggerRow[]>
  /** Returns those of the files that no run was created for, in their order. */
  unrecordedFiles(watched: WatchedPath, files: readonly FileVersion[]): Promise<FileVersion[]>
  /** Records files in one transaction. Returns the created run of each; null: none, or the file was recorded before. */
  recordFiles(watched: WatchedPath, files: readonly RecordedFile[]): Promise<(RunRow | null)[]>
  /** Sets why the trigger creates no runs; null: it works. */
  setTriggerProblem(id: number, problem: string | null): Promise<void>
}
