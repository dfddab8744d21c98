// The contract of an executor, which runs attempts and reports their results. Executors do not know stores, retries or limits.

import type { ArtifactSource } from "../core/model/artifacts.ts"
import type { AttemptResult } from "../core/model/change.ts"
import type { Json } from "../core/values/json.ts"
import { DEFAULT_INTERPRETER, type Node } from "../core/model/workflow.ts"
import type { PolicyFields } from "../core/settings/policy.ts"

export interface Executor {
  readonly name: string
  /**
   * True when the work runs elsewhere and is named after the attempt: another launch of the same attempt finds the work and
   * continues to watch it, so that a server adopts the attempts of a dead one by launching them. Such work uses no slots of
   * this machine. On `shutdown` and `lost`, the executor leaves the work alone and resolves with `lost`.
   */
  readonly remote?: boolean
  /** True when the work runs in this process and uses no folder of its own, unless its task has a `working_dir`. */
  readonly folderless?: boolean
  /**
   * Runs the attempt to its end. Never rejects: failures are results. On abort it stops the work (SIGTERM, then SIGKILL after
   * `graceMs`) and resolves when nothing of it is left; a success before the stop stays a success.
   */
  launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult>
  /**
   * Removes work that no attempt of this process follows and whose attempt has ended. Called regularly. `ended` returns the ids of
   * the attempts that have ended.
   */
  sweep?(ended: (work: LeftoverWork[]) => Promise<ReadonlySet<string>>): Promise<void>
  /** Called with the commit of the result of an attempt, which resolves with whether the store applied it. */
  committed?(attemptId: string, applied: Promise<boolean>): void
  start?(): Promise<void>
  stop?(): Promise<void>
}

/** Work in the system of an executor whose attempt is not followed here. */
export type LeftoverWork = Pick<Assignment, "runId" | "taskId" | "attemptId">

/** Reason of a stop, which determines the state of the attempt unless it has succeeded. */
export type StopReason = "cancel" | "timeout" | "shutdown" | "lost"

/** The stop of an attempt, without the cost of an AbortSignal. */
export interface Stop {
  /** null: not stopped. */
  readonly reason: StopReason | null
  /** Calls the listener when the attempt is stopped. Returns a function that removes it. */
  onStop(listener: () => void): () => void
}

/** Returns the stop of a signal whose reason is a StopReason. */
const stopOf = (signal: AbortSignal): Stop => ({
  get reason() {
    return signal.aborted ? (signal.reason as StopReason) : null
  },
  onStop(listener) {
    signal.addEventListener("abort", listener, { once: true })
    return () => signal.removeEventListener("abort", listener)
  },
})

/** Returns the stop of a launch. Reads the signal only if it must: that creates it. */
export const stopOfLaunch = (context: LaunchContext): Stop => context.stop ?? stopOf(context.signal)

export interface LaunchContext {
  /** `signal.reason` is a StopReason. */
  signal: AbortSignal
  /** Reports the same stop as `signal`. Absent: there is only the signal. */
  stop?: Stop
  /** Reports the start of the work, at most once and before the result. */
  started(info: { at: number; externalId?: string }): void
  /** Reports progress, which is also a heartbeat. May be called often: the latest report counts. */
  progress(update: Progress): void
}

export interface Progress {
  /** A number from 0 to 1. */
  fraction?: number
  details?: Json
}

/** An attempt with all expressions evaluated. */
export interface Assignment {
  runId: string
  taskId: string
  /** The row of the task in the store. Workers do not know it. */
  row?: number
  attemptId: string
  attempt: number
  workflow: string
  task: string
  path: string
  parallelIndex: number | null
  parallelCount: number | null
  logicalDate: string | null
  /** The compiled node, for fields without expressions (resources, runAs, output schema, …). */
  node: Node
  input: Json
  /** Names of files in `upstreamDir` that are also part of the input, which is an object without them: see `inputText`. */
  inputFiles?: string[]
  /** Evaluated fields of the executor (url, body, duration, …). */
  fields: { [field: string]: Json }
  /**
   * A script whose values are in `env`, with the program and arguments that run it unless they are the default; or an argument list. null
   * for executors without commands.
   */
  command: { shell: string; interpreter?: string[] | undefined } | { argv: string[] } | null
  /** The task's environment: `env` of workflow and task, and values of the command. */
  env: { [name: string]: string }
  /** The folder of the run, which `working_dir` of a task is relative to. */
  baseDir: string
  /** The folder to run in; created if it belongs to the run. */
  workingDir: string
  /**
   * Location of `file`; by default it is in `workingDir`. The code of a bundle, given by its hash, never changes. `registered`:
   * the file registers its functions under names, instead of exporting them.
   */
  code?: { folder: string; bundle: string | null; registered?: boolean }
  /** Folder with the large outputs of upstream tasks, one file per task, written once per run; null when there are none. */
  upstreamDir: string | null
  /** Artifacts of upstream tasks in the object store, and the folder with them on this machine, which work in `ork exec` does not need. */
  upstreamArtifacts?: ArtifactSource[]
  artifactsDir?: string
  /** Files of `workingDir` that a successful attempt stores, and their size together. */
  artifacts?: { patterns: string[]; maxBytes: number }
  /** Prefix of this attempt's objects: log, output, artifacts. */
  prefix: string
  maxOutputBytes: number
  /** Size of the log from which the rest is dropped. Default: 1 GiB. */
  maxLogBytes?: number
  graceMs: number
  /**
   * Set for an attempt of a dead server: its work may exist. `startedAt`: the start that was reported, in milliseconds; null when
   * there was none.
   */
  adopted?: { startedAt: number | null }
  /** What the administrator's policy allows, for what only the machine of the task can check; undefined: everything. */
  policy?: PolicyFields
  /** Values that `objects/mask.ts` masks in the log and in errors. */
  secrets: string[]
  /**
   * Returns the variables with which deferred work can be finished from outside. A function, because most tasks never need
   * them.
   */
  callback?: () => { [name: string]: string }
}

type Command = NonNullable<Assignment["command"]>

/** Returns the program and the arguments that precede a script. */
export const interpreterOf = (command: Extract<Command, { shell: string }>): string[] =>
  command.interpreter ?? [...DEFAULT_INTERPRETER]

/** Returns the program of a command and its arguments; an empty list without a command. */
export const argvOf = (command: Assignment["command"]): string[] => {
  if (command === null) return []
  return "argv" in command ? command.argv : [...interpreterOf(command), command.shell]
}
