// The contract between the engine and a database. Core decides in TypeScript; a store checks the fence and writes rows. sqlite/ and
// postgres/ implement it and pass the same conformance suite.
//
// Rules that every implementation keeps:
//  * `advance` is one transaction. It commits all of a batch or nothing. A change whose fence is lost is listed in `rejected` and
//    has no effect: it unblocks nothing and counts nothing.
//  * A row is ready when its status is pending, it has no attempt id, `upstream_pending` is 0, it is not parked, and it has no
//    `available_at` in the future.
//  * Every write about an attempt names the attempt id and the legal source states of the change (core/rules/changes/transitions.ts).
//  * The store creates instants from its clock (SQLite: the injected clock; Postgres: the clock of the database, unless one is
//    injected). Callers pass durations. Times are returned as ISO 8601 in UTC with milliseconds.
//  * Slots of limits are counted in the transaction that claims or finishes. A ready row that meets a full limit is parked under
//    it, out of the ready queue; a freed slot unparks the next row in claim order.
//  * No work is proportional to the history: finished rows are in no index that a claim, an unblock or a timer reads.

import type { Change, Fence, Output, Usage } from "../../core/model/change.ts"
import type { CallStep } from "../../core/model/function-signals.ts"
import type { RunCause } from "../../core/model/cause.ts"
import type { AttemptId, HolderId, RunId } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { RowState, RetryReset } from "../../core/rules/runs/retry-plan.ts"
import type { WorkerCapabilities } from "../../core/routing/capabilities.ts"
import type { AttemptState, RunStatus, SkipReason, TaskStatus } from "../../core/model/status.ts"
import type { WaitingOn, WaitingView } from "../../core/model/waiting-on.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { CancelReason, Claim, OrphanedAttempt, RowKind, TaskClaim } from "./claim.ts"
import type { JobStatus } from "../../core/rules/jobs/jobs.ts"
import type { Limited } from "../../core/rules/access/permissions.ts"

export type * from "./claim.ts"

/** What a call creates. */
export type CreatedWork = "jobs" | "runs"

export interface Store {
  readonly kind: "sqlite" | "postgres"
  /**
   * true: every lease holder is alive while it renews its lease. false (SQLite): only workers are; servers and `ork run` are alive
   * while their process on this machine is.
   */
  readonly usesLeases: boolean
  /**
   * `maxConcurrent`: calls of `advance` that may be in progress at once, for different runs. `minBatch`: number of changes from which
   * a concurrent call pays for its commit.
   */
  readonly advanceConcurrency: { maxConcurrent: number; minBatch: number }
  /**
   * What the store commits together with an `advance` that is called before the end of the tick of the creating call, and that can then
   * claim it (see `Engine.createWithTurn` for the order of both calls).
   */
  readonly commitsTogether: readonly CreatedWork[]

  /** Applies missing migrations under a lock. Rejects a schema newer than the code (`SchemaTooNew`). */
  migrate(): Promise<void>
  /** Becomes a server of this database until `close`. Returns false when another process is its only one (SQLite). */
  becomeServer(): Promise<boolean>
  close(): Promise<void>

  // -- workflows -------------------------------------------------------------------------------------------------------------
  /** Stores a version; idempotent by name and hash. With `deploy: false` (`ork run`) the deployed version stays. */
  putWorkflow(input: NewVersion): Promise<StoredVersion>
  /** Returns the random secret of this database, with which tokens are signed. */
  getSecret(): Promise<string>
  /** Returns the compiled workflow of a version, from a bounded cache. Throws NotFound. */
  getVersion(versionId: number): Promise<CompiledWorkflow>
  /** Returns it synchronously. Available for every version of a claim or a created run that is still in use. */
  getLoadedVersion(versionId: number): CompiledWorkflow

  // -- the loop --------------------------------------------------------------------------------------------------------------
  advance(batch: Batch): Promise<AdvanceResult>
  /** Calls `wake` when another process has committed work for this one. */
  onWake(wake: () => void): void

  // -- runs: each call is a transaction; a store may commit several calls together ------------------------------------------------
  /**
   * Creates runs in one transaction. A repeated idempotency key of a workflow returns the first run with `created: false`. A run whose
   * id exists is returned as created: the caller repeats a call whose reply was lost.
   */
  createRuns(runs: NewRun[]): Promise<{ run: RunRow; created: boolean }[]>
  /**
   * Requests the cancel of a run; `advance` then cancels its pending rows. Returns false when the run is closed. With `inFlight`, the
   * run is a durable function, which is cancelled only while it runs: returns false when it is suspended or about to be resumed.
   */
  requestCancel(runId: RunId, reason: CancelReason, options?: { inFlight?: boolean }): Promise<boolean>
  /** Pauses or continues a run. Claims park the rows of a paused run that they meet; continuing unparks them. Returns false when it is closed. */
  setPaused(runId: RunId, paused: boolean): Promise<boolean>
  /** Resets rows of a closed run by a plan of core/rules/runs/retry-plan.ts and reopens it. Returns false when it is not closed. */
  retryRun(runId: RunId, plan: RetryReset): Promise<boolean>

  // -- lease holders ---------------------------------------------------------------------------------------------------------------
  registerHolder(holder: NewLeaseHolder): Promise<void>
  /** Extends the lease. Returns false when the holder was evicted: it must stop and register under a new id. */
  renewLease(id: HolderId, leaseMs: number): Promise<boolean>
  /**
   * Keeps a holder alive while the event loop of this process is blocked, up to the stall limit; then other processes may take over its
   * work. Returns a function that ends this. Absent where no other process uses the database.
   */
  guardLease?(lease: GuardedLease): () => void
  deregisterHolder(id: HolderId): Promise<void>
  /** Gives every worker with an expired lease a new one. A starting server calls it: no server was there to renew them. */
  extendWorkerLeases(): Promise<void>
  /** Lists the claims of a holder, gate claims included. After a lost reply the holder releases those that it never received. */
  listInFlight(id: HolderId): Promise<InFlightAttempt[]>
  listHolders(): Promise<LeaseHolderRow[]>
  /** Returns the hash of the token of a worker; null when it is unknown or evicted, or when its key has expired. */
  workerToken(id: HolderId): Promise<string | null>
  /**
   * Marks dead holders and returns at most `limit` of their attempts, which the caller reports as lost. Releases their gate claims.
   * Considers workers only with `workers`, which servers set.
   */
  reapHolders(limit: number, options?: { workers: boolean }): Promise<OrphanedAttempt[]>
  /** Lists private runs that cannot end by themselves, because their `ork run` is dead, at most `limit`. */
  listAbandonedRuns(limit: number): Promise<AbandonedRun[]>
  /** Returns the claims of attempts in flight again, with their present state. Leaves out those whose fence is lost. */
  readClaims(fences: readonly Fence[]): Promise<Claim[]>
  /** Moves attempts of dead holders to this holder, under the same attempt ids. Leaves out those that another holder has adopted. */
  adopt(holder: HolderId, fences: readonly Fence[]): Promise<Claim[]>

  // -- reads -----------------------------------------------------------------------------------------------------------------
  getRun(runId: RunId): Promise<RunRow | null>
  /** Returns the id of a run by its number within its workflow, or null. */
  findRunId(query: { workflow: string; number: number }): Promise<RunId | null>
  /** Lists runs, newest first, then by id, descending. `createdAfter` is inclusive, `createdBefore` is exclusive. */
  listRuns(
    query: Limited & {
      workflow?: string
      status?: RunStatus
      trigger?: NewRun["trigger"]
      createdAfter?: string
      createdBefore?: string
      /** Requires `workflow`; other filters do not apply. */
      logicalDate?: string
      limit: number
      before?: { createdAt: string; id: string }
    },
  ): Promise<RunRow[]>
  /** Lists tasks without containers, in row order, after the row `after`. */
  listTasks(query: { runId: RunId; name?: string; after?: number; limit: number }): Promise<TaskRow[]>
  getTask(query: { runId: RunId; name: string; path: string }): Promise<TaskRow | null>
  /** Returns the paths of the instances of a task, or of a group, with this label, at most `limit`. */
  findPaths(query: { runId: RunId; name: string; label: string; limit: number }): Promise<string[]>
  /** Lists the states of top-level rows for a retry plan, without instances and hooks. */
  listRowStates(runId: RunId): Promise<RowState[]>
  /** Lists past attempts of a task, oldest first. The current one is in the task's row. */
  listAttempts(row: number): Promise<AttemptRow[]>
  /** Lists the states of rows inside groups, and of instances of groups, in row order. */
  listInnerRowStates(query: { runId: RunId; after?: number; limit: number }): Promise<(RowState & { row: number })[]>
  /** Lists the outputs of the children of a container in index order; null for those that did not succeed. */
  childOutputs(query: { containerRow: number; after: number; limit: number }): Promise<ChildOutput[]>
  getCached(query: { workflowId: number; task: string; key: string }): Promise<Output | null>
  /** Deletes entries of the cache that have expired. Returns their number, at most `limit`. */
  trimCache(limit: number): Promise<number>
  /** Returns those of these object keys that an entry of the cache refers to, unless it has expired. */
  cachedKeysInUse(keys: string[]): Promise<string[]>
  /** Returns the mean duration of each task in the last successful runs of a workflow, in seconds, by task name. */
  pastDurations(workflow: string): Promise<Map<string, number>>

  // -- retention ---------------------------------------------------------------------------------------------------------------
  /**
   * Lists closed runs to remove, oldest first: older than `olderThanMs`, or beyond the newest `keep` of their workflow. A run whose end
   * its parent has not seen stays.
   */
  removableRuns(query: { olderThanMs?: number; keep?: number; limit: number }): Promise<RunId[]>
  /**
   * Removes at most `maxRows` tasks of a closed run; 0 only marks it. From the first call on the run cannot be retried. Returns true
   * when the whole run is removed. Rejects with a Conflict if the run has not ended, or not before `endedBefore` (epoch milliseconds):
   * it was retried meanwhile.
   */
  removeRun(runId: RunId, maxRows: number, endedBefore?: number): Promise<boolean>
  /** Returns whether a run with this idempotency key was created by a webhook in the last hour, and removed since. */
  isMessageUsed(key: string): Promise<boolean>
  /** Deletes limits of concurrency keys under which no unfinished task or job is. Returns their number, at most `limit`. */
  trimLimits(limit: number): Promise<number>
}

export interface NewVersion {
  compiled: CompiledWorkflow
  hash: string
  source: string
  deploy: boolean
  /** Next tick of each of `compiled.schedules`, required with `deploy`; null when a schedule has no further tick. */
  nextAt?: (string | null)[]
  /** First firing of each schedule if the schedule is new or has a new `start`; default `nextAt`. */
  firstAt?: (string | null)[]
  /** Name of the key or user that stores it, if it is new; null or not given: nobody. */
  createdBy?: string | null
  /** With `deploy`: reject with the outcome `exists` when the name is deployed. */
  ifNew?: boolean
}

export interface StoredVersion {
  workflowId: number
  versionId: number
  version: number
  outcome: "new" | "new_version" | "same" | "exists"
}

export const TRIGGERS = ["manual", "schedule", "webhook", "backfill", "workflow", "after", "path"] as const

export interface NewRun {
  id: RunId
  workflowId: number
  versionId: number
  trigger: (typeof TRIGGERS)[number]
  params: JsonObject
  /** null: the priority of the workflow. */
  priority: number | null
  logicalDate: string | null
  idempotencyKey: string | null
  /** Name of the key or user that started it; null or not given: nobody. */
  createdBy?: string | null
  /** Only the engine that names the lanes of this run claims its tasks (`ork run`). */
  private: boolean
  /** Working directory of the tasks; null: a folder of the run. */
  workingDir: string | null
  /** Schedule that created the run, with its time zone. */
  scheduleId?: number
  timezone?: string
  /** The occasion for which a trigger creates the run. */
  cause?: RunCause
  /** The run stays pending while an earlier run of the same schedule is not closed. */
  waitForSchedule?: boolean
  /**
   * The run stays pending until this one has succeeded (`depends_on_past`). An earlier run of the call, whose idempotency key was used before,
   * stands for the run that has the key.
   */
  previousRun?: RunId
  /** Task that waits for this run as its sub-workflow; resumed when the run closes. */
  parent?: ParentTask
}

export interface ParentTask {
  row: number
  runId: RunId
  task: string
  /** The step of a durable function that calls the run. */
  step?: CallStep
  /** Outermost run, whose lanes a private run uses; null: the run itself. */
  rootRunId: RunId | null
  /** Number of runs above it. */
  depth: number
  /** One of the runs above it is of the same workflow. */
  withinSameWorkflow: boolean
}

// -- advance -------------------------------------------------------------------------------------------------------------------

export interface Batch {
  holder: HolderId
  /** At most 1,000. Those of one attempt are applied in their order (started, finish); those of different attempts, in any. */
  changes: Change[]
  /** Claims for work: by priority, workflows in turn, then in the order of core/rules/claims/claim-order.ts. */
  work: { lanes: string[]; maxClaims: number }
  /** Claims for the gate. */
  gate: { lanes: string[]; maxClaims: number }
}

export interface AdvanceResult {
  /** Fences of rejected changes. */
  rejected: Fence[]
  claims: Claim[]
  /**
   * Claims for the gate: pending rows under an attempt id that does not count as an attempt, and resumed rows (`wait`), which
   * are running under the id of their attempt.
   */
  gateClaims: TaskClaim[]
  /** Runs that are being cancelled and have attempts of this holder in flight, which it must stop. */
  cancelling: { runSeq: number; reason: CancelReason }[]
  /** Attempts of this holder that it must stop. Listed in every result until they have finished. */
  stopRequests: AttemptId[]
  /** Runs that this transaction closed. Their hooks are inserted. */
  closed: { runSeq: number; runId: RunId; status: RunStatus }[]
  events: StoreEvent[]
  /** A bound was reached and work is left: the caller calls again at once. */
  more: boolean
  /** Milliseconds until the next retry, resumed row, timeout or token of a queue is due, or null. */
  nextDueMs: number | null
}

// -- returned rows ----------------------------------------------------------------------------------------------------------

export interface RunRow {
  seq: number
  id: RunId
  /** Number within its workflow, from 1, in the order of creation. */
  number: number
  workflow: string
  workflowId: number
  versionId: number
  version: number
  status: RunStatus
  paused: boolean
  cancelling: CancelReason | null
  trigger: string
  cause: RunCause | null
  params: JsonObject
  priority: number
  logicalDate: string | null
  createdAt: string
  createdBy: string | null
  startedAt: string | null
  finishedAt: string | null
  /** Time between its end and its retries, which `finishedAt - startedAt` includes. */
  idleMs: number
  error: string | null
  private: boolean
  workingDir: string | null
  /** See `ParentTask`. */
  rootRunId: RunId | null
  parent: Pick<ParentTask, "runId" | "task"> | null
  /** See `NewRun`. */
  previousRun: RunId | null
  /** Number of unfinished hooks. */
  hooksPending: number
  /** Number of tasks by status, without hooks and containers. */
  tasks: Record<TaskStatus, number>
}

export interface TaskRow {
  row: number
  runId: RunId
  node: number
  name: string
  path: string
  /** Label of the instance, or of the instances of groups around it; null without one. */
  label: string | null
  kind: RowKind
  status: TaskStatus
  skipReason: SkipReason | null
  attempt: number
  failures: number
  losses: number
  attemptId: AttemptId | null
  priority: number
  item: Json
  output: Output | null
  error: string | null
  exitCode: number | null
  worker: string | null
  externalId: string | null
  usage: Usage | null
  /** State of the last finished attempt; null while an attempt is in flight and before the first one. */
  lastAttemptState: AttemptState | null
  availableAt: string | null
  dispatchedAt: string | null
  startedAt: string | null
  finishedAt: string | null
  /** Why the row is parked: its run is paused, its group waits for a slot, or this limit is full. */
  parked: "paused" | "group" | { limit: string; cap: number; used: number } | null
  upstreamPending: number
  /** The event that the row waits for without a slot, or null. */
  waitingOn: WaitingOn | null
  /** When a waiting row is resumed; null: by an event only. */
  resumeAt: string | null
  progress: Progress | null
}

export interface ChildOutput {
  row: number
  node: number
  status: TaskStatus
  output: Output | null
}

export interface AttemptRow {
  attempt: number
  attemptId: AttemptId
  state: AttemptState
  worker: string | null
  externalId: string | null
  exitCode: number | null
  error: string | null
  usage: Usage | null
  dispatchedAt: string | null
  startedAt: string | null
  finishedAt: string | null
}

export interface NewLeaseHolder {
  id: HolderId
  kind: "server" | "worker" | "run"
  name: string
  leaseMs: number
  /** Identity of the process: pid, start time, boot id. */
  process: string
  /** Private run whose tasks it claims (`ork run`), or null. */
  runId: RunId | null
  /** Work that it accepts; null: only its private run. */
  capabilities?: WorkerCapabilities | null
  /** Hash of the token of a worker. */
  tokenHash?: string | null
  /** API key that registered a worker, and the hash of the secret that it used; null: the server's own. */
  key?: { id: string; hash: string } | null
}

export interface GuardedLease {
  id: HolderId
  leaseMs: number
  /** Time for which the event loop may be blocked. */
  stallMs: number
  /** Called when the holder was evicted at the stall limit. Where leases expire, the next renewal finds that out instead. */
  onEvicted(): void
  /** Called when the event loop is not watched any more. */
  onError(error: unknown): void
}

export interface LeaseHolderRow extends Omit<NewLeaseHolder, "capabilities" | "tokenHash" | "key"> {
  capabilities: WorkerCapabilities | null
  leaseUntil: string
  dead: boolean
  /** Number of its attempts in flight. */
  inFlight: number
}

/**
 * Outermost run of a dead `ork run`, in whose lanes rows of a run wait that is being cancelled (`closed`: false), or hooks only
 * (`closed`: true).
 */
export interface AbandonedRun {
  runId: RunId
  closed: boolean
}

/** `stop`: why the holder must stop the attempt, or null. `resumes`: how often the row was resumed, 0 unless it waits. */
export type InFlightAttempt = Fence & { stop: CancelReason | null; resumes: number }

/** Event of a commit: one for each status change of a run, a task or a job, in order, and for the progress of a task. */
export type StoreEvent = EventFields &
  ({ type: "run" | "task"; jobId?: string; status: RunStatus | TaskStatus } | { type: "job"; jobId: string; status: JobStatus })

interface EventFields {
  /** Empty for jobs. */
  runId: RunId
  task?: string
  path?: string
  attempt?: number
  /** Name and queue of a job. */
  name?: string
  queue?: string
  /** ISO instant. */
  at: string
  error?: string
  /** Set for a pending task or job that waits for its retry. */
  availableAt?: string
  /** Set for an expanded fan-out: the number of its instances. */
  total?: number
  /** Set for a task that waits without a slot. */
  waiting?: WaitingView
  progress?: Progress
}

export interface Progress {
  /** 0 to 1. */
  fraction: number | null
  details: Json
}
