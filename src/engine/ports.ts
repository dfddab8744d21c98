// Options of an engine, and the interfaces that it uses. The command passes real implementations; tests and simulations pass others.

import type { ArtifactSource } from "../core/model/artifacts.ts"
import type { Clock, Fetch, Random, SecretSource } from "../core/model/ports.ts"
import type { Json, JsonObject } from "../core/values/json.ts"
import type { RunId } from "../core/model/ids.ts"
import type { AttemptResult, Output } from "../core/model/change.ts"
import type { Node, Template } from "../core/model/workflow.ts"
import type { ExpressionScope, LargeText } from "../core/expressions/expression-scope.ts"
import type { Policy } from "../core/settings/policy.ts"
import type { WorkerCapabilities } from "../core/routing/capabilities.ts"
import type { Assignment, Executor } from "../executors/executor.ts"
import type { ObjectStore } from "../objects/objects.ts"
import type { FunctionStore } from "../store/contract/functions.ts"
import type { JobStore } from "../store/contract/jobs.ts"
import type { Claim, Store, TaskClaim } from "../store/contract/store.ts"

/** Evaluates expressions, and checks large outputs, in bounded time: synchronously where that is safe, otherwise in another thread. */
export interface Evaluator {
  evaluate(source: string, scope: ExpressionScope): Json | Promise<Json>
  render(template: Template, scope: ExpressionScope): Json | Promise<Json>
  /** Returns why a value does not fit a schema; null when it does. */
  check(schema: JsonObject, text: LargeText): Promise<string | null>
  stop(): Promise<void>
}

export interface Logger {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Observes the engine for metrics and traces. Must be fast, and must not throw. */
export interface Observer {
  /** Called after each commit. */
  turn?(batch: { changes: number; claims: number; ms: number }): void
  /** Returns additional variables for an attempt. */
  environment?(claim: Claim): { [name: string]: string }
  attemptEnded?(claim: Claim, node: Node, result: AttemptResult): void
  /** Called after a run was cancelled by request. */
  cancelled?(): void
}

type WorkFolders = Pick<Assignment, "baseDir" | "workingDir">

/** Provides the folders of an attempt: `LocalFolders`, or for a worker a recorder of what the worker has to create. */
export interface Folders {
  /** Returns the folders of a task. `wanted`: its `working_dir`; null without one. */
  workingDir(claim: Claim, wanted: string | null): WorkFolders | Promise<WorkFolders>
  /** Returns the folder with the files of the workflow's version, for a task that names a `file`. */
  code(claim: TaskClaim, bundle: string | null): Promise<NonNullable<Assignment["code"]> | null>
  /** Returns the folder that contains NAME.json for each of the upstream outputs, which are too large to merge. */
  upstream(claim: TaskClaim, outputs: ReadonlyMap<string, Output>): Promise<string>
  /** Returns the folder that contains the artifacts of upstream tasks. */
  artifacts(claim: TaskClaim, sources: readonly ArtifactSource[]): Promise<string>
}

/** A limit of concurrent attempts that changes. */
export interface ConcurrencyLimit {
  current(): number
  /** Called when as many attempts as `current` are in flight. Calls `grown` when more may start, as long as it is full. */
  full(isFull: () => boolean, grown: () => void): void
}

/**
 * Probes outside of Ork for what `wait` tasks wait for. A rejection counts as a condition that does not hold yet, unless its error is named
 * BROKEN_CONDITION: then waiting cannot help.
 */
export interface ConditionProbes {
  /**
   * Returns the existing files or objects that an absolute path, an address or a pattern of them names, sorted, at most 1,000. A pattern
   * matches files in the data folder only below `ownFolder`, that of the run.
   */
  paths(path: string, ownFolder?: string): Promise<string[]>
  /** Sends a request as an http task does, with a timeout. `expected`: the response has an expected status. */
  respond(request: ConditionRequest): Promise<{ response: JsonObject; expected: boolean }>
  /** Returns the first row of a query in a configured database; null when there is none. */
  firstRow(query: ConditionQuery): Promise<JsonObject | null>
  stop(): Promise<void>
}

export const BROKEN_CONDITION = "BrokenCondition"

export interface ConditionRequest extends Pick<Assignment, "fields" | "secrets" | "policy"> {
  timeoutMs: number
}

export interface ConditionQuery {
  /** null: the only one that is configured. */
  connection: string | null
  text: string
  /** Values of $1, $2, …; null is NULL. */
  values: (string | null)[]
  timeoutMs: number
}

/** Returns the private run that an engine belongs to; null: it claims shared work. */
export const privateRunOf = ({ lanes }: Pick<EngineOptions, "lanes">): RunId | null =>
  "privateRun" in lanes ? lanes.privateRun : null

export interface EngineOptions {
  store: Store & Pick<FunctionStore, "listSteps" | "sendSignal"> & Pick<JobStore, "cancelJob">
  objects: ObjectStore
  executors: ReadonlyMap<string, Executor>
  evaluator: Evaluator
  clock: Clock
  random: Random
  log: Logger
  holder: { kind: "server" | "run"; name: string; process: string; capabilities?: WorkerCapabilities }
  /** The lanes of shared work that the engine claims, or the only run whose tasks it claims (`ork run`). */
  lanes: string[] | { privateRun: RunId }
  /** Limit of concurrent attempts on this machine; with `adaptiveConcurrency`, the least that it allows. */
  concurrency: number
  /** Replaces `concurrency`. */
  adaptiveConcurrency?: ConcurrencyLimit
  /** Limit of concurrent attempts whose work runs elsewhere. Default: 1,000. */
  remoteConcurrency?: number
  maxFanout: number
  maxOutputBytes: number
  /** Size of all artifacts of an attempt together. Default: 1 GiB. */
  maxArtifactBytes?: number
  /** Size of a log from which the rest is dropped. Default: 1 GiB. */
  maxLogBytes?: number
  graceMs: number
  /** Length of the lease of this process. Default: 8 s. */
  leaseMs?: number
  /**
   * Time for which handlers may block the event loop before other processes take over the work of this one. Default: a blocked event
   * loop does not renew its lease.
   */
  stallMs?: number
  /** Contains run folders and upstream files. */
  dataDir: string
  /** Provides the folders of attempts. Default: folders in `dataDir`. */
  folders?: Folders
  secret: SecretSource
  /** Policy about what tasks may use. Default: everything is allowed. */
  policy?: Policy
  observer?: Observer
  /** Returns the address of the API, for callbacks; null: not known yet. */
  address?(): string | null
  /** Sends the requests of deferred polls. */
  fetch?: Fetch
  /** Checks the conditions of `wait` tasks. Absent: other engines of the store do. */
  conditions?: ConditionProbes
  /** Finds the workflow of a sub-workflow task; null: there is none of that name. */
  findWorkflow?(name: string, from: { workingDir: string | null }): Promise<{ workflowId: number; versionId: number } | null>
}
