// What the store remembers between calls, so that the loop asks the database less: the attempts and gate claims that it gave
// out, and what never changes about runs. Everything is bounded and can be read again; the fence in the database decides.

import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import type { JsonObject } from "../../../core/model/json.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { OutputColumns } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { RowKind } from "../../contract/store.ts"

/** A row that somebody holds, as far as its changes need it. None of this changes while it is held, but for jobs (`lockJobs`). */
export interface InFlightAttempt {
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
  /** Held by the gate, pending and no attempt counted, or waiting: no limit is used. */
  gate: boolean
  /** A start was recorded and told. */
  started: boolean
  /** The run's round: it goes up when the run is retried, or something of it is marked. */
  generation: number
  /** The run's. */
  priority: number
}

/** How a row ended, for those below it in the same round of its run. */
export interface FinishedTask {
  status: TaskStatus
  output: OutputColumns
}

/** What never changes about a run. */
export interface RunInfo {
  id: RunId
  workflow: string
  versionId: number
  params: JsonObject
  trigger: string
  priority: number
  logicalDate: string | null
  createdAt: string
  private: boolean
  workingDir: string | null
  timezone: string | null
  rootRunId: RunId | null
  depth: number
}

/**
 * A map that forgets what was put in longest ago: it keeps the last `size`, and up to as many before. Two generations, because to
 * look for the oldest entry of one map takes longer the more were deleted before it.
 */
export class BoundedMap<Key, Value> {
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

const HELD = 50_000
const RUNS = 1_000
const ENDED = 5_000
/** Larger outputs are read again. */
const LONGEST_OUTPUT = 1_000

export class Cache {
  readonly inFlight = new BoundedMap<AttemptId, InFlightAttempt>(HELD)
  readonly runs = new BoundedMap<number, RunInfo>(RUNS)
  readonly finished = new BoundedMap<string, FinishedTask>(ENDED)
}

/** The place of a row in one round of its run. */
export const taskKey = (runSeq: number, round: number, node: number, path: string): string =>
  `${runSeq}/${round}/${node}/${path}`

/** The ends of a turn by place, as far as they are worth remembering. */
export const cacheableResults = (
  ends: readonly { held: InFlightAttempt; status: TaskStatus; output: OutputColumns }[],
): Map<string, FinishedTask> => {
  const known = new Map<string, FinishedTask>()
  for (const { held, status, output } of ends)
    if (!isJobRow(held.runSeq) && (output[0]?.length ?? 0) <= LONGEST_OUTPUT)
      known.set(taskKey(held.runSeq, held.generation, held.node, held.path), { status, output })
  return known
}
