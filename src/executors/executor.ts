// The contract of an executor: it runs one attempt and says how it ended. It knows nothing of stores, retries or limits.

import type { AttemptResult } from "../core/model/change.ts"
import type { Json } from "../core/model/json.ts"
import type { Node } from "../core/model/workflow.ts"

export interface Executor {
  readonly name: string
  /**
   * Its work lives elsewhere, named after the attempt: a launch of the same attempt again finds it there and goes on watching it,
   * so a server that takes over from a dead one just launches. Such work takes none of this machine's slots. Told to stop for
   * `shutdown` or `lost`, it leaves the work alone and ends its watch as `lost`.
   */
  readonly remote?: boolean
  /**
   * Runs the attempt to its end. Never rejects: what goes wrong is a result. On abort it stops the work (SIGTERM, then
   * SIGKILL after `graceMs`) and resolves when nothing of it is left; a success that came first stays a success.
   */
  launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult>
  start?(): Promise<void>
  stop?(): Promise<void>
}

/** Why the work is being stopped; becomes the state of the attempt unless it had succeeded. */
export type StopReason = "cancel" | "timeout" | "shutdown" | "lost"

export interface LaunchContext {
  /** `signal.reason` is a StopReason. */
  signal: AbortSignal
  /** The work has begun. Call at most once, before the result. */
  started(info: { at: number; externalId?: string }): void
  /** How far it is; may be called often, the latest counts. A sign of life too. */
  progress(update: Progress): void
}

export interface Progress {
  /** 0 to 1. */
  fraction?: number
  details?: Json
}

/** One attempt with every expression resolved. */
export interface Assignment {
  runId: string
  taskId: string
  attemptId: string
  attempt: number
  workflow: string
  task: string
  path: string
  parallelIndex: number | null
  parallelCount: number | null
  logicalDate: string | null
  /** The node as compiled, for fields that hold no expressions (resources, runAs, output schema, …). */
  node: Node
  input: Json
  /** Resolved executor fields (url, body, duration, …). */
  fields: { [field: string]: Json }
  /** Set for process tasks (and containers): a shell script whose values are in `env`, or an argument list. */
  command: { shell: string } | { argv: string[] } | null
  /** The task's whole own environment: `env` of workflow and task, values of the command, ORK_*. */
  env: { [name: string]: string }
  /** The folder to run in; made if it is the run's own. */
  workingDir: string
  /**
   * Where `file` lies; by default in `workingDir`. What is of a bundle (its hash) never changes. `registered`: the file registers its
   * functions under names, rather than exporting them.
   */
  code?: { folder: string; bundle: string | null; registered?: boolean }
  /** Upstream outputs too large to merge: file name in $ORK_UPSTREAM by task, written once per run. */
  upstreamDir: string | null
  /** Prefix of this attempt's objects: log, output. */
  prefix: string
  maxOutputBytes: number
  graceMs: number
  /** Values that must not appear in its log or its error: `objects/mask.ts` puts `***` in their place. */
  secrets: string[]
  /** The variables that tell where somebody else may end it, once it has deferred its work; most never ask. */
  callback?: () => { [name: string]: string }
}
