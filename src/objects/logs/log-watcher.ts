// Notifies a reader that follows a log: by a file watch in a local store, by uploads of this process to a remote store, and always by
// slow polling. Knows when the task has ended; one more read then returns the rest.

import { watch } from "node:fs"
import type { FSWatcher } from "node:fs"
import { dirname } from "node:path"
import { logKey } from "./log-keys.ts"
import type { ObjectStore } from "../objects.ts"

const POLL_MS = 1000
/** Interval while the folder does not exist; the first output creates it. */
const FOLDER_POLL_MS = 100

/** Readers of logs that this process uploads, by store and prefix. */
const followers = new WeakMap<ObjectStore, Map<string, Set<() => void>>>()

/** Notifies the readers of a log that more was uploaded. */
export const notifyReaders = (objects: ObjectStore, prefix: string): void => {
  for (const notify of followers.get(objects.failFast ?? objects)?.get(prefix) ?? []) notify()
}

const subscribe = (objects: ObjectStore, prefix: string, notify: () => void): (() => void) => {
  const store = objects.failFast ?? objects
  const logs = followers.get(store) ?? new Map<string, Set<() => void>>()
  const readers = logs.get(prefix) ?? new Set()
  followers.set(store, logs)
  logs.set(prefix, readers.add(notify))
  return () => {
    readers.delete(notify)
    if (readers.size === 0) logs.delete(prefix)
  }
}

export class LogWatcher {
  readonly #folder: string | null
  readonly #ended: AbortSignal | undefined
  readonly #notify = (): void => {
    this.#dirty = true
    this.#waiting?.()
  }
  #unsubscribe: (() => void) | null = null
  #watcher: FSWatcher | null = null
  #dirty = false
  #waiting: (() => void) | null = null

  /** `ended` aborts when the task has ended; without it the log counts as ended. */
  constructor(objects: ObjectStore, prefix: string, ended: AbortSignal | undefined) {
    this.#folder = objects.localPath ? dirname(objects.localPath(logKey(prefix))) : null
    this.#ended = ended
    if (this.ended) return
    ended?.addEventListener("abort", this.#notify)
    if (this.#folder === null) this.#unsubscribe = subscribe(objects, prefix, this.#notify)
    this.#watch()
  }

  get ended(): boolean {
    return this.#ended === undefined || this.#ended.aborted
  }

  /** Resolves when there may be more to read. */
  next(): Promise<void> {
    if (this.#watcher === null) this.#watch()
    if (this.#dirty || this.ended) {
      this.#dirty = false
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const timer = setTimeout(this.#notify, this.#watcher === null && this.#folder !== null ? FOLDER_POLL_MS : POLL_MS)
      this.#waiting = () => {
        clearTimeout(timer)
        this.#waiting = null
        this.#dirty = false
        resolve()
      }
    })
  }

  close(): void {
    this.#ended?.removeEventListener("abort", this.#notify)
    this.#watcher?.close()
    this.#unsubscribe?.()
    this.#notify()
  }

  #watch(): void {
    if (this.#folder === null) return
    try {
      this.#watcher = watch(this.#folder, { persistent: false }, this.#notify)
      this.#watcher.on("error", () => {
        this.#watcher?.close()
        this.#watcher = null
      })
      // The watch has no events for earlier writes.
      this.#dirty = true
    } catch {
      this.#watcher = null
    }
  }
}
