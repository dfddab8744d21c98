// Claims: rows that `advance` hands to a lease holder, each under a new attempt id.

import type { RunCause } from "../../core/model/cause.ts"
import type { Output } from "../../core/model/change.ts"
import type { AttemptId, RunId } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { RowKind } from "../../core/model/row.ts"
import type { RunStatus, TaskStatus } from "../../core/model/status.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { NewJob } from "./jobs.ts"

export type CancelReason = "cancel" | "timeout"

/** A claimed row: a task of a run, or a job. Carries everything that the engine needs to gate or launch it. */
export type Claim = TaskClaim | JobClaim

interface ClaimBase {
  row: number
  attemptId: AttemptId
  /** Number of this attempt, from 1, over the row's whole life. For gates: attempts so far. */
  attempt: number
  priority: number
}

export interface TaskClaim extends ClaimBase {
  kind: RowKind
  runSeq: number
  runId: RunId
  workflowId: number
  versionId: number
  node: number
  /** `` at the top level, `3` for instance 3, `1.2` in nested groups. */
  path: string
  /** Counted failures and losses since the last user's retry. */
  failures: number
  losses: number
  item: Json
  /** The item of `node.parent`; null where there is none. */
  parentItem: Json
  /** Number of instances of the fan-out that the row is one of, or of children of this container (null before it is opened). */
  instanceCount: number | null
  /** Containers: children made so far, those that have not ended (null before the first), and how many of the ended ones failed. */
  childrenCreated: number
  childrenPending: number | null
  childrenFailed: number
  /**
   * Set for a row that has waited in this attempt: on what, how long the attempt has been running by the store's clock, how often the row
   * was resumed, and whether it must end. A row that `advance` claims was resumed; `readClaims` also returns rows that still wait.
   */
  wait: { on: WaitingOn; elapsedMs: number; resumes: number; mustEnd?: true } | null
  upstream: { failed: number; unmet: number; waived: number }
  /** State of each of `node.reads`, by node. Containers stand for their instances. */
  reads: Map<number, { status: TaskStatus; output: Output | null }>
  run: ClaimedRun
}

export interface ClaimedRun {
  workflow: string
  params: JsonObject
  trigger: string
  cause: RunCause | null
  priority: number
  logicalDate: string | null
  createdAt: string
  private: boolean
  /** See `ParentTask`. */
  rootRunId: RunId | null
  depth: number
  workingDir: string | null
  /** Time zone that the run's days are counted in; null: UTC. */
  timezone: string | null
  cancelling: CancelReason | null
  /** Read by hooks. */
  status: RunStatus
  error: string | null
}

export interface JobClaim extends ClaimBase {
  kind: "job"
  job: ClaimedJob
  /** Counted failures and losses since the last user's retry. */
  failures: number
  losses: number
  /** Creation of the job. */
  createdAt: string
}

export type ClaimedJob = Pick<NewJob, "id" | "name" | "queue" | "payload" | "retryPolicy" | "retry" | "timeoutMs" | "task">

export type { RowKind }

/** An attempt of a dead holder: a claim without the launch data. */
export type OrphanedAttempt = OrphanedTask | OrphanedJob

export type OrphanedTask = OrphanedState &
  Pick<
    TaskClaim,
    "row" | "attemptId" | "runSeq" | "runId" | "versionId" | "node" | "path" | "kind" | "attempt" | "failures" | "losses"
  >

export type OrphanedJob = OrphanedState &
  Pick<JobClaim, "row" | "attemptId" | "kind" | "job" | "attempt" | "failures" | "losses">

interface OrphanedState {
  startedAt: string | null
  externalId: string | null
  cancelling: CancelReason | null
}
