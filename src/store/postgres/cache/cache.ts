// What the store caches between calls, so that the loop reads less: attempts in flight that it claimed, results of finished tasks, and what
// never changes of runs. Everything is bounded and can be read again; the fence in the database decides.

import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { OutputColumns } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { ClaimedRun } from "../../contract/claim.ts"
import type { RowKind } from "../../contract/store.ts"

/** A row in flight, as far as its changes need it. Nothing of it changes while it is in flight, except for jobs (`lockAndAmendJobs`). */
export interface CachedAttempt {
  row: number
  attemptId: AttemptId
  runSeq: number
  runId: RunId
  private: boolean
  rootRunId: RunId | null
  workflowId: number
  versionId: number
  node: number
  path: string
  kind: RowKind
  lane: string
  attempt: number
  limits: readonly number[] | null
  /** The row uses slots: it neither is pending under a gate claim nor waits. */
  usesSlots: boolean
  /** Whether its start was recorded. */
  started: boolean
  /** Generation of the run: grows when the run is retried, or an outcome is overridden. */
  generation: number
  /** Priority of the run. */
  priority: number
  /** Name of a job. Absent: the row is a task, or this store did not claim the job. */
  jobName?: string | null
}

/** Result of a task, for tasks that read it in the same generation of the run. */
export interface FinishedTask {
  status: TaskStatus
  output: OutputColumns
}

/** The fields of a run that never change. */
export interface RunInfo extends Omit<ClaimedRun, "status" | "cancelling" | "error"> {
  id: RunId
  versionId: number
}

/**
 * A map that keeps the last `size` entries, and up to as many before. It has two halves, because finding the oldest entry of one map takes
 * longer the more were deleted before it.
 */
export class TwoHalfMap<Key, Value> {
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()
  readonly #size: number

  constructor(size: number) {
    this.#size = size
  }

  get(key: Key): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  set(key: Key, value: Value): void {
    this.#young.set(key, value)
    if (this.#young.size <= this.#size) return
    this.#old = this.#young
    this.#young = new Map()
  }

  delete(key: Key): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }
}

const MAX_CACHED = { inFlight: 50_000, runs: 1_000, finished: 5_000 } as const
/** Longer outputs, in characters, are read again. */
const MAX_OUTPUT_LENGTH = 1_000

export class Cache {
  readonly inFlight = new TwoHalfMap<AttemptId, CachedAttempt>(MAX_CACHED.inFlight)
  readonly runs = new TwoHalfMap<number, RunInfo>(MAX_CACHED.runs)
  /** Limits of which a parked row could not be unparked, because another transaction had locked it. */
  readonly missedLimits = new Set<number>()
  /** By `resultKey`. */
  readonly finished = new TwoHalfMap<string, FinishedTask>(MAX_CACHED.finished)
}

/** Returns the key of a task in one generation of its run. */
export const resultKey = (runSeq: number, generation: number, node: number, path: string): string =>
  `${runSeq}/${generation}/${node}/${path}`

/** Returns the results that are worth caching, by `resultKey`. */
export const cacheableResults = (
  finishes: readonly { inFlight: CachedAttempt; status: TaskStatus; output: OutputColumns }[],
): Map<string, FinishedTask> => {
  const results = new Map<string, FinishedTask>()
  for (const { inFlight, status, output } of finishes)
    if (!isJobRow(inFlight.runSeq) && (output[0]?.length ?? 0) <= MAX_OUTPUT_LENGTH)
      results.set(resultKey(inFlight.runSeq, inFlight.generation, inFlight.node, inFlight.path), { status, output })
  return results
}
