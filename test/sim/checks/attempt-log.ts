// Records the history of each attempt, as the fake executors and the commits report it, never the engine.

import type { AttemptResult } from "../../../src/core/model/change.ts"
import type { Json } from "../../../src/core/values/json.ts"
import type { AttemptState } from "../../../src/core/model/status.ts"
import type { EngineProcess } from "../engine/engine-process.ts"
import type { SimNode, SimWorkflow } from "../scenario/workflows.ts"

/** One task or instance of a run. */
export interface TaskRef {
  runId: string
  /** The run's label. */
  run: string
  workflow: SimWorkflow
  simNode: SimNode
  path: string
}

export interface LaunchedAttempt extends TaskRef {
  id: string
  number: number
  process: EngineProcess
  /** The holder id under which its engine claimed it; null: unknown. */
  holder: string | null
  /** In milliseconds since the start of the simulation, as `startedAt`. */
  launchedAt: number
  live: boolean
  stopped: boolean
  startedAt: number | null
  /** The value of its concurrency key; null: it has none. */
  key: string | null
  result: AttemptResult | null
  /** The output of the result; null: none. */
  output: Json
}

/** A committed end of an attempt. */
export interface AppliedResult {
  id: string
  kind: "finish" | "retry"
  state: AttemptState
  /** The time of day. */
  at: number
  /** Milliseconds since the start of the simulation. */
  elapsed: number
  retryAfterMs: number | null
}

/** History of a task since its run began or a user retried it. */
export interface TaskHistory {
  /** Without those that the tables no longer had: they may belong to the time before the retry. */
  launches: LaunchedAttempt[]
  /** Attempts in the order in which committed changes ended them. */
  applied: AppliedResult[]
  succeeded: boolean
}

const taskKey = (runId: string, node: number, path: string): string => `${runId}/${node}/${path}`

export const describeTask = ({ run, simNode, path }: TaskRef): string => `${run}/${simNode.node.name}${path && `[${path}]`}`

/** Returns whether the attempt has ended, but its task waits for a callback, or is a suspended function. */
export const isDeferred = ({ simNode, result }: LaunchedAttempt): boolean =>
  (simNode.waitPlan?.kind === "defer" && result?.state === "success") || isSuspended(result)

export const isSuspended = (result: AttemptResult | null): boolean => result?.suspended !== undefined

export class AttemptLog {
  readonly attempts = new Map<string, LaunchedAttempt>()
  readonly live = new Set<LaunchedAttempt>()
  readonly #histories = new Map<string, TaskHistory>()

  history(runId: string, node: number, path: string): TaskHistory {
    const key = taskKey(runId, node, path)
    let history = this.#histories.get(key)
    if (history === undefined) {
      history = { launches: [], applied: [], succeeded: false }
      this.#histories.set(key, history)
    }
    return history
  }

  addLaunch(attempt: LaunchedAttempt, isStored: boolean): void {
    this.attempts.set(attempt.id, attempt)
    this.live.add(attempt)
    if (isStored) this.history(attempt.runId, attempt.simNode.index, attempt.path).launches.push(attempt)
  }

  addResult(attempt: LaunchedAttempt, result: AttemptResult, output: Json): void {
    attempt.live = false
    attempt.result = result
    attempt.output = output
    this.live.delete(attempt)
  }

  /** Ends all attempts of a process. */
  addCrash(process: EngineProcess): void {
    for (const attempt of this.live) {
      if (attempt.process !== process) continue
      attempt.live = false
      this.live.delete(attempt)
    }
  }

  /** Forgets the history of a task that a user retried; with the path null, of all its instances too. */
  forgetTask(runId: string, node: number, path: string | null): void {
    const key = taskKey(runId, node, path ?? "")
    if (path !== null) {
      this.#histories.delete(key)
      return
    }
    for (const known of this.#histories.keys()) if (known.startsWith(key)) this.#histories.delete(known)
  }
}
