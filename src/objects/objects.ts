// The contract of an object store: logs, large outputs, specs. Keys are `/`-separated, never start with `/`, never hold `..`.

export interface ObjectStore {
  readonly kind: "file" | "s3" | "gcs"
  /** Whole or not at all: a reader never sees half of it. */
  put(key: string, data: Uint8Array | string): Promise<void>
  /** The same from a stream of unknown length. */
  putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }>
  /** null: no such object. */
  get(key: string): Promise<Uint8Array | null>
  /** Bytes [start, end) of it, fewer at its end; null: no such object. */
  getRange(key: string, start: number, end: number): Promise<Uint8Array | null>
  size(key: string): Promise<number | null>
  /** Keys below a prefix that ends in `/`, in order, a page at a time. */
  list(prefix: string, options?: { after?: string; limit?: number }): Promise<string[]>
  deletePrefix(prefix: string): Promise<void>
  /** Makes one object of pieces of others, in the store itself as far as it can. Where it is missing: `joinPieces`. */
  join?(key: string, pieces: readonly ObjectRange[]): Promise<void>
  /** Writes and reads back a probe; throws with the reason. */
  check(): Promise<void>
  /** Where an object lies on this machine, if it does: writers on the same machine may append to it. */
  localPath?(key: string): string
}

/** Bytes [start, end) of an object. */
export interface ObjectRange {
  key: string
  start: number
  end: number
}

/** Everything about one attempt lies below this prefix. */
export const attemptPrefix = (runId: string, task: string, attemptId: string): string => `runs/${runId}/${task}/${attemptId}/`

/** The same for an attempt of a job, which has no run. */
export const jobAttemptPrefix = (jobId: string, attemptId: string): string => `jobs/${jobId}/${attemptId}/`
