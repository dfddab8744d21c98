// Everything that can happen to a task row, as data. The gate and `decide` produce changes; a store applies a change only while
// its fence (the attempt id of the claim) still holds.

import type { AuditFields } from "./audit-fields.ts"
import type { AttemptId } from "./ids.ts"
import type { Json } from "../values/json.ts"
import type { Limit, NewRow } from "./row.ts"
import type { AttemptState, SkipReason, FinalStatus } from "./status.ts"
import type { WaitingOn } from "./waiting-on.ts"

/** Size of the JSON text above which an output is stored as an object; INLINE_MAX in native/ork-spawn.h is the same. */
export const MAX_INLINE_OUTPUT_BYTES = 65_536

/** An output, or the key of its object if it is larger than MAX_INLINE_OUTPUT_BYTES. */
export type Output = { inline: Json } | { key: string; bytes: number }

export interface Usage {
  maxRssBytes?: number
  cpuUserMs?: number
  cpuSystemMs?: number
  signal?: string
}

/** Result of one attempt, from any executor. Times are epoch milliseconds on the lease holder's clock. */
export interface AttemptResult {
  state: AttemptState
  startedAt: number | null
  finishedAt: number
  output?: Output
  error?: string
  exitCode?: number
  externalId?: string
  usage?: Usage
  /** false: another attempt cannot succeed. */
  retryable?: boolean
  retryAfterMs?: number
  /**
   * A durable function is suspended, and the attempt has no result yet. `seenRequests`: number of requests to resume it that it has
   * seen.
   */
  suspended?: { message: string; delayMs: number | null; seenRequests: number }
  /** What kept the attempt from starting, as far as the executor knows. Part of the error when the start times out. */
  waitedFor?: string
}

/** Identifies a row and the claim of it. */
export interface Fence {
  /** Row number of the task. */
  row: number
  attemptId: AttemptId
}

/** Fields of every change: the fence of its attempt, and how it is committed. */
export interface ChangeBase extends Fence {
  /**
   * Number of the run, or of the job's row. Changes with different keys may be committed concurrently; those with the same key
   * are committed in order. Absent: not known.
   */
  shardKey?: number
  /** Entry of the audit log that is committed with the change, if it is applied. */
  auditEntry?: Omit<AuditFields, "at">
}

type FencedTask = Fence & { runSeq: number }
type FencedJob = Fence & { kind: "job" }

/** Returns what the changes of a claim have in common. */
export const fenceOf = (claim: FencedTask | FencedJob): Required<Omit<ChangeBase, "auditEntry">> => {
  const { row, attemptId } = claim
  return { row, attemptId, shardKey: "runSeq" in claim ? claim.runSeq : row }
}

export type Change =
  /** The process runs: dispatched → running. */
  | (ChangeBase & { kind: "started"; at: number; externalId?: string })
  /** Progress of a running attempt. Stores keep the latest only. */
  | (ChangeBase & { kind: "progress"; fraction: number | null; details: Json })
  /**
   * The task waits without a slot and without a holder: → running, to be resumed after `delayMs` (null: by an event only). Submitted
   * by the gate when it begins the attempt, by an attempt that defers its work (its slots are freed), or again by a resumed row, with
   * the number of its claim (`resumes`): a wait is rejected once its row was resumed again. `seenRequests`: how many requests to resume
   * the row the attempt has read; with another number in the store the row is due at once. The wait of such a row, a durable function,
   * is rejected while its run is being cancelled.
   */
  | (ChangeBase & {
      kind: "wait"
      waitingOn: WaitingOn
      delayMs: number | null
      startedAt?: number
      resumes?: number
      seenRequests?: number
    })
  /** The task reaches its final status. `skipped`: its failure is one of `skip_on`, which counts like a skip by `if`. */
  | (ChangeBase & {
      kind: "finish"
      status: FinalStatus
      result: AttemptResult
      /** Stores the output under this key for later runs (`cache:`). `output`: the cache's copy of a large output. */
      cache?: { key: string; ttlMs: number | null; output?: Output }
      /**
       * Job or run that may end with this task: those who wait for its result need not read it. `task`: name of a last task of a graph;
       * null: the output is the whole result. Not stored.
       */
      ends?: { id: string; task: string | null }
    })
  /** A failed or lost attempt is repeated: → pending, available after the delay. */
  | (ChangeBase & { kind: "retry"; delayMs: number; lost: boolean; result: AttemptResult })
  /** The gate skips the task: → skipped. */
  | (ChangeBase & { kind: "skip"; skipReason: SkipReason; reason: string })
  /** The gate cannot evaluate the task (bad expression, bad reference): → failed, without an attempt. */
  | (ChangeBase & { kind: "fail"; error: string })
  /** The gate lets the task run: the row moves to the lane where workers claim it, under these limits. */
  | (ChangeBase & { kind: "enqueue"; lane: string; limits: Limit[] })
  /** The gate finds a cached output: → success. */
  | (ChangeBase & { kind: "reuse"; output: Output })
  /**
   * The gate creates instances `offset … offset + items.length - 1` of `total`, with this lane, priority and limits. After the last
   * one the container waits for its instances. `items` holds null for `parallel`.
   */
  | (ChangeBase & {
      kind: "expand"
      total: number
      offset: number
      items: Json[]
      /** One for each of `items`; absent when no instance has a label. */
      labels?: (string | null)[]
      lane: string
      priority: number
      limits: Limit[]
    })
  /**
   * The gate opens a group: it creates rows `offset … offset + rows.length - 1` of `total` at the group's path. After the last one
   * the group waits for its tasks. The first chunk takes a slot of each limit; while one is full, the group is parked instead.
   * Without rows (`offset` equals `total`), a retried group takes its slots again and its existing rows may run.
   */
  | (ChangeBase & { kind: "open_group"; total: number; offset: number; rows: NewRow[]; limits: Limit[] })
  /** All instances of a fan-out, or all tasks of a group, have finished: the container finishes with their outputs. */
  | (ChangeBase & { kind: "gather"; status: "success" | "failed" | "cancelled"; output: Output; error?: string })
  /** A resumed row returns to its lane, where it is claimed again under the same attempt number: → pending. */
  | (ChangeBase & { kind: "requeue" })
  /**
   * The holder gives the claim back unstarted (drain, missing executor): the row is as before the claim and the attempt does not
   * count. A resumed row is due again.
   */
  | (ChangeBase & { kind: "release" })
