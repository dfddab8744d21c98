// What can happen to a task row, as data. Executors give results, the gate gives verdicts; `decide` turns both into
// changes, and a store applies a change only while its fence (the attempt id that the claim minted) still holds.

import type { AttemptId } from "./ids.ts"
import type { Json } from "./json.ts"
import type { NewRow } from "../rules/new-rows.ts"
import type { AttemptState, SkipReason } from "./status.ts"
import type { WaitingOn } from "./waiting-on.ts"

/** An output: inline up to 64 KiB, else an object's key. */
export type Output = { inline: Json } | { key: string; bytes: number }

export interface Usage {
  maxRssBytes?: number
  cpuUserMs?: number
  cpuSystemMs?: number
  signal?: string
}

/** How one attempt ended, whoever ran it. Times are epoch milliseconds on the holder's clock. */
export interface AttemptResult {
  state: AttemptState
  startedAt: number | null
  finishedAt: number
  output?: Output
  error?: string
  exitCode?: number
  externalId?: string
  usage?: Usage
  /** false: trying again cannot help. */
  retryable?: boolean
  retryAfterMs?: number
  /** Why it did not begin, as far as its executor knows: told when it ran out of time to. */
  waitedFor?: string
}

/** Says which row and which claim of it a change is about. */
export interface Fence {
  /** Row number of the task. */
  row: number
  attemptId: AttemptId
  /** Its run, 0 for a job: turns that speak of different runs may be under way at once. */
  runSeq?: number
}

export const fenceOf = ({ row, attemptId, runSeq }: Required<Fence>): Required<Fence> => ({ row, attemptId, runSeq })

export type Change =
  /** The process has begun: dispatched → running. */
  | (Fence & { kind: "started"; at: number; externalId?: string })
  /** How far a live attempt is; only the latest is kept. */
  | (Fence & { kind: "progress"; fraction: number | null; details: Json })
  /**
   * It goes on without a slot: → running, nobody's, woken after the delay (null: by an event alone). From the gate, where that
   * begins its attempt; from a live attempt, whose slots are given back; or again from a woken row.
   */
  | (Fence & { kind: "wait"; waitingOn: WaitingOn; delayMs: number | null; startedAt?: number })
  /** Success, failure or cancel of an attempt, for good. */
  | (Fence & {
      kind: "finish"
      status: "success" | "failed" | "cancelled"
      result: AttemptResult
      /** Keeps the output under this key for later runs (`cache:`). */
      cache?: { key: string; ttlMs: number | null }
    })
  /** A failed or lost attempt that is tried again: → pending, available after the delay. */
  | (Fence & { kind: "retry"; delayMs: number; lost: boolean; result: AttemptResult })
  /** The gate says no: → skipped. */
  | (Fence & { kind: "skip"; skipReason: SkipReason; reason: string })
  /** The gate could not judge (bad expression, bad reference): → failed without an attempt. */
  | (Fence & { kind: "fail"; error: string })
  /** The gate says go: the row moves to the lane where work is claimed, under these limits. */
  | (Fence & { kind: "enqueue"; lane: string; limits: { key: string; cap: number }[] })
  /** The gate found a cached success. */
  | (Fence & { kind: "reuse"; output: Output })
  /**
   * The gate makes instances `offset … offset + items.length - 1` of `total`; with the last of them the container waits for
   * its children. `items` holds null for `parallel`. Instances take `lane` and `limits`.
   */
  | (Fence & {
      kind: "expand"
      total: number
      offset: number
      items: Json[]
      lane: string
      priority: number
      limits: { key: string; cap: number }[]
    })
  /**
   * The gate opens a group: rows `offset … offset + rows.length - 1` of `total` are made at its path; with the last of them it
   * waits for its tasks. A slot of each of its `limits` is taken with the first; while one is full, the group is parked instead.
   * Without rows (`offset` is `total`): a group that a retry goes on with takes its slots again, and its rows may go.
   */
  | (Fence & { kind: "open_group"; total: number; offset: number; rows: NewRow[]; limits: { key: string; cap: number }[] })
  /** All instances, or all tasks of a group, have ended: the container ends with what they made. */
  | (Fence & { kind: "gather"; status: "success" | "failed" | "cancelled"; output: Output; error?: string })
  /**
   * The holder gives it back unstarted (drain, no such executor here): → as before the claim, attempt not counted. A woken row is
   * due again.
   */
  | (Fence & { kind: "release" })
