// The contract between the engine and a database. TypeScript decides (core/), a store verifies the fence and moves sets of
// rows. Two implementations, sqlite/ and postgres/, held to the same conformance suite.
//
// Rules every implementation keeps:
//  * `advance` is one transaction. Either all of a batch is committed or none of it; a change whose fence no longer holds is
//    reported in `refused` and has no effect at all (no release, no counter).
//  * A row is ready when: status pending, no attempt id, upstreamLeft 0, not parked, availableAt null or due.
//  * Every write about an attempt says `WHERE id = row AND attempt_id = attemptId AND status IN (…)`.
//  * Instants are made here, from the store's clock (SQLite: the injected clock; Postgres: the database's, unless injected).
//    Callers speak durations. Times leave as ISO 8601 UTC with milliseconds.
//  * Limits (`used` < `cap`) are counted in the same transaction as the claim and the end. A ready row that meets a full limit
//    is parked under it, out of the claim index; freeing a slot unparks the next (priority, run, row).
//  * No work proportional to history: finished rows are in no index that a claim, a release or a timer reads.

import type { Change, Fence, Output, Usage } from "../../core/model/change.ts"
import type { AttemptId, HolderId, RunId } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"
import type { NodeState, RetryReset } from "../../core/rules/retry-plan.ts"
import type { WorkerCapabilities } from "../../core/routing/capabilities.ts"
import type { AttemptState, RunStatus, SkipReason, TaskStatus } from "../../core/model/status.ts"
import type { WaitingOn } from "../../core/model/waiting-on.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { CancelReason, Claim, LiveAttempt, RowKind, TaskClaim } from "./claim.ts"
import type { Progress, StoreEvent } from "./store-event.ts"

export type * from "./claim.ts"
export type { Progress, StoreEvent } from "./store-event.ts"

export interface Store {
  readonly kind: "sqlite" | "postgres"
  /**
   * Holders live by leases that they renew. False (SQLite): a judge of processes on this machine says who is dead; workers, which
   * may be anywhere, live by leases there too.
   */
  readonly leases: boolean
  /** Calls of `advance` that may be under way at once if they speak of different runs; a second is worth its commit from so many changes on. */
  readonly advanceConcurrency: { maxConcurrent: number; minBatch: number }

  /** Applies missing migrations under a lock. Refuses a schema newer than the code (`SchemaTooNew`). */
  migrate(): Promise<void>
  close(): Promise<void>

  // -- workflows -------------------------------------------------------------------------------------------------------------
  /** Idempotent by (name, hash). `deploy: false` (for `ork run`) stores the version but leaves what is deployed as it is. */
  putWorkflow(input: NewVersion): Promise<StoredVersion>
  /** A random text of this database's own, the same for all who use it: what tokens are signed with. */
  secret(): Promise<string>
  /** The compiled workflow of a version; cached in memory (bounded). Throws NotFound. */
  compiled(versionId: number): Promise<CompiledWorkflow>
  /** The same without waiting: there for every version that a claim or an acknowledged run named and still in use. */
  compiledNow(versionId: number): CompiledWorkflow

  // -- the loop --------------------------------------------------------------------------------------------------------------
  advance(batch: Batch): Promise<Advanced>
  /** Postgres: another process committed something of interest. SQLite: called for commits of other processes if it can know. */
  onWake(wake: () => void): void

  // -- runs: each its own transaction, or folded into one by the implementation ------------------------------------------------
  /** One transaction for all. The same idempotency key of a workflow again gives the first run, `created: false`. */
  createRuns(runs: NewRun[]): Promise<{ run: RunRow; created: boolean }[]>
  /** Marks the run; `advance` then ends its pending rows by a cursor. Not running or pending: returns false. */
  requestCancel(runId: RunId, reason: CancelReason): Promise<boolean>
  /** `paused` true parks what is ready (and what becomes ready); false unparks it. */
  setPaused(runId: RunId, paused: boolean): Promise<boolean>
  /** Resets rows of an ended run by a plan made in core/rules/retry-plan.ts; the run is running again. Fails (false) if not ended. */
  retryRun(runId: RunId, plan: RetryReset): Promise<boolean>

  // -- holders ---------------------------------------------------------------------------------------------------------------
  registerHolder(holder: NewLeaseHolder): Promise<void>
  /** Extends the lease. False: the holder was given up on; it must stop and start under a new id. */
  renewLease(id: HolderId, leaseMs: number): Promise<boolean>
  deregisterHolder(id: HolderId): Promise<void>
  /** Workers that nobody could renew, as no server was alive: each gets a whole lease from now. Called by a server that starts. */
  extendWorkerLeases(): Promise<void>
  /** What a holder has, gate claims too: after a call whose answer was lost, it gives back what it never got. */
  listInFlight(id: HolderId): Promise<InFlightAttempt[]>
  listHolders(): Promise<LeaseHolderRow[]>
  /** The hash of the token that this worker shows; null: there is no such worker, or it was given up on. */
  workerToken(id: HolderId): Promise<string | null>
  /**
   * Marks a dead holder (`isDead`: Postgres by lease, SQLite by the judge given at open) and returns at most `limit` of the
   * attempts that it held, so that they become outcomes `lost`. Gate claims of dead holders are released on the spot. Workers
   * are judged only with `workers`, which servers ask for.
   */
  reapHolders(limit: number, options?: { workers: boolean }): Promise<LiveAttempt[]>
  /** Live attempts as they were claimed, and how they stand now; those whose fence no longer holds are left out. */
  readClaims(fences: readonly Fence[]): Promise<Claim[]>
  /** Takes live attempts of dead holders over, under the same attempt id; those that others were quicker with are left out. */
  adopt(holder: HolderId, fences: readonly Fence[]): Promise<Claim[]>

  // -- reads -----------------------------------------------------------------------------------------------------------------
  getRun(runId: RunId): Promise<RunRow | null>
  /** Newest first, then by id, descending. `createdAfter` is inclusive, `createdBefore` is not. */
  listRuns(query: {
    workflow?: string
    status?: RunStatus
    trigger?: NewRun["trigger"]
    createdAfter?: string
    createdBefore?: string
    limit: number
    before?: { createdAt: string; id: string }
  }): Promise<RunRow[]>
  /** Instances only (no containers), in row order; `after` is the last row seen. */
  listTasks(query: { runId: RunId; name?: string; after?: number; limit: number }): Promise<TaskRow[]>
  getTask(query: { runId: RunId; name: string; path: string }): Promise<TaskRow | null>
  /** Rows of top-level nodes with their states, for a retry plan. No instances, no hooks. */
  listNodes(runId: RunId): Promise<NodeState[]>
  /** Past attempts of a task, oldest first; the current one is in the task's row. */
  listAttempts(row: number): Promise<AttemptRow[]>
  /** The same of rows inside of groups, and of the instances of groups, in row order, a page at a time. */
  listInner(query: { runId: RunId; after?: number; limit: number }): Promise<(NodeState & { row: number })[]>
  /** Outputs of the children of a container in index order, a page at a time; null where one did not succeed. */
  instanceOutputs(query: { containerRow: number; after: number; limit: number }): Promise<ChildOutput[]>
  getCached(query: { workflowId: number; task: string; key: string }): Promise<Output | null>
  /** Mean seconds that each task of a workflow took in its last successful runs, by task name. */
  pastDurations(workflow: string): Promise<Map<string, number>>

  // -- retention ---------------------------------------------------------------------------------------------------------------
  /** Ended runs to remove, oldest first: older than `olderThanMs`, or beyond the newest `keep` of their workflow. */
  expiredRuns(query: { olderThanMs?: number; keep?: number; limit: number }): Promise<RunId[]>
  /** Removes an ended run with its tasks and attempts, at most `maxRows` rows a call; true when nothing of it is left. */
  removeRun(runId: RunId, maxRows: number): Promise<boolean>
}

export interface NewVersion {
  compiled: CompiledWorkflow
  hash: string
  source: string
  deploy: boolean
  /** With `deploy`: when each of `compiled.schedules` fires next, by its place; null: never again. */
  nextAt?: (string | null)[]
  /** With `deploy`: refuses (`exists`) when the name is deployed already. */
  ifNew?: boolean
}

export interface StoredVersion {
  workflowId: number
  versionId: number
  version: number
  outcome: "new" | "new_version" | "same" | "exists"
}

export const TRIGGERS = ["manual", "schedule", "webhook", "backfill", "workflow"] as const

export interface NewRun {
  id: RunId
  workflowId: number
  versionId: number
  trigger: (typeof TRIGGERS)[number]
  params: JsonObject
  /** null: the workflow's. */
  priority: number | null
  logicalDate: string | null
  idempotencyKey: string | null
  /** Private: only the engine that names this run's lanes takes its tasks (`ork run`). */
  private: boolean
  /** Where its tasks run; null: a folder of the run's own. */
  workingDir: string | null
  /** The schedule that made it, and the zone that its days are counted in. */
  scheduleId?: number
  timezone?: string
  /** Waits as pending while an earlier run of the same schedule is active. */
  waitForSchedule?: boolean
  /** The task whose sub-workflow it is: woken when the run ends. */
  parent?: ParentTask
}

export interface ParentTask {
  row: number
  runId: RunId
  task: string
  /** Whose lanes a private run uses: those of the run that was started first. */
  rootRunId: RunId | null
  /** How many runs are above it. */
  depth: number
}

// -- advance -------------------------------------------------------------------------------------------------------------------

export interface Batch {
  holder: HolderId
  /** At most 1,000. Applied in order; several about one row may follow each other (started, end). */
  changes: Change[]
  /** What to take for work, in lanes of core/order.ts; ordered by priority, workflows in turn, run age, row. */
  claim: { lanes: string[]; limit: number }
  /** What to take for judgement. */
  gate: { lanes: string[]; limit: number }
}

export interface Advanced {
  /** Fences of changes that no longer held. */
  rejected: Fence[]
  claims: Claim[]
  /**
   * Taken for the gate: status pending, held under the attempt id, not counted as an attempt. And rows that waited and are due
   * (`waits`), in the same lanes: status running, held, under the id of their attempt.
   */
  gates: TaskClaim[]
  /** Runs that are being cancelled and have live attempts (of this holder): stop them. */
  cancelling: { runSeq: number; reason: CancelReason }[]
  /** Live attempts of this holder whose job was cancelled or deleted: stop them. Told again until they have ended. */
  cancelRequested: AttemptId[]
  /** Runs that ended in this transaction; their hooks are already rows. */
  closed: { runSeq: number; runId: RunId; status: RunStatus }[]
  events: StoreEvent[]
  /** Something was left for the next turn (cancel cursor, more due rows, parked candidates): call again at once. */
  more: boolean
  /** Milliseconds until the next retry, wake or run timeout is due, or null. */
  nextDueMs: number | null
}

// -- rows as they leave ----------------------------------------------------------------------------------------------------------

export interface RunRow {
  seq: number
  id: RunId
  workflow: string
  workflowId: number
  versionId: number
  version: number
  status: RunStatus
  paused: boolean
  cancelling: CancelReason | null
  trigger: string
  params: JsonObject
  priority: number
  logicalDate: string | null
  createdAt: string
  startedAt: string | null
  finishedAt: string | null
  error: string | null
  private: boolean
  workingDir: string | null
  /** See `ParentTask`. */
  rootRunId: RunId | null
  parent: Pick<ParentTask, "runId" | "task"> | null
  /** Hook tasks that have not ended. */
  hooksPending: number
  /** Instances by status, hooks not counted. */
  tasks: Record<TaskStatus, number>
}

export interface TaskRow {
  row: number
  runId: RunId
  node: number
  name: string
  path: string
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
  /** How the latest attempt ended; null while it lives or when there was none. */
  outcome: AttemptState | null
  availableAt: string | null
  dispatchedAt: string | null
  startedAt: string | null
  finishedAt: string | null
  /** Why it is out of the claim index: the run is paused, its group has no slot yet, or this limit is full. */
  parked: "paused" | "group" | { limit: string; cap: number; used: number } | null
  upstreamPending: number
  /** What it waits for without a slot, and when it is woken for that; null: by an event alone. */
  waitingOn: WaitingOn | null
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
  /** How SQLite's judge knows the process again: pid, start time, boot id. */
  process: string
  /** The private run that it takes, for `ork run`. */
  runId: RunId | null
  /** What it takes; null: only its private run. */
  capabilities?: WorkerCapabilities | null
  /** Of a worker: the hash of the token that it shows. */
  tokenHash?: string | null
}

export interface LeaseHolderRow extends Omit<NewLeaseHolder, "capabilities" | "tokenHash"> {
  capabilities: WorkerCapabilities | null
  leaseUntil: string
  dead: boolean
  /** Live attempts that it has. */
  inFlight: number
}

/** `stop`: it must be stopped, as its run or its job was cancelled. */
export type InFlightAttempt = Fence & { stop: CancelReason | null }
