// The contract of an object store for logs, large outputs, bundles and specs. The parts of a key are separated by `/`; none is empty,
// `.` or `..`.

export interface ObjectStore {
  readonly kind: "file" | "s3" | "gcs"
  /** Writes an object atomically: a reader never sees a part of it. */
  put(key: string, data: Uint8Array | string): Promise<void>
  /** Writes an object atomically from a stream of unknown length. */
  putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }>
  /** Returns null if there is no such object. */
  get(key: string): Promise<Uint8Array | null>
  /** Returns the bytes [start, end), fewer at the end of the object; null if there is no such object. */
  getRange(key: string, start: number, end: number): Promise<Uint8Array | null>
  /** Returns null if there is no such object. */
  size(key: string): Promise<number | null>
  /** Lists a page of the keys below a prefix, which ends in `/` or is empty, in byte order. */
  list(prefix: string, options?: { after?: string; limit?: number }): Promise<string[]>
  /** Lists the same as `list`, with what names the content of each object. Absent for files. */
  listObjects?(prefix: string, options?: { after?: string; limit?: number }): Promise<ListedObject[]>
  deletePrefix(prefix: string): Promise<void>
  /** Concatenates ranges of objects into one object, inside the store as far as possible. Optional. */
  join?(key: string, ranges: readonly ObjectRange[]): Promise<void>
  /** Removes uploads below `KEY_PREFIXES` that began longer ago than `olderThanMs`. Optional. */
  removeUnfinished?(olderThanMs: number): Promise<void>
  /**
   * A view of this store for requests of users, which fails soon while the store does not respond. Absent: this store fails soon
   * itself.
   */
  readonly failFast?: ObjectStore
  /** Writes and reads back a test object; throws an ObjectStoreError. */
  check(): Promise<void>
  /** Returns the path of an object in a store on this machine; log writers append to it. */
  localPath?(key: string): string
}

export interface ListedObject {
  key: string
  /** Another content has another version. */
  version: string
  /** When it was written, in epoch milliseconds. */
  changedAt: number
}

/** Bytes [start, end) of an object. */
export interface ObjectRange {
  key: string
  start: number
  end: number
}

/** The prefixes of all keys that Ork writes. */
export const KEY_PREFIXES = ["bundles/", "cache/", "jobs/", "runs/"] as const

/** Returns the prefix of all objects of an attempt. */
export const attemptPrefix = (runId: string, task: string, attemptId: string): string => `runs/${runId}/${task}/${attemptId}/`

/** Returns the prefix of all objects of a job's attempt. */
export const jobAttemptPrefix = (jobId: string, attemptId: string): string => `jobs/${jobId}/${attemptId}/`
