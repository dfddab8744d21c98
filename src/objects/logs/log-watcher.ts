// Wakes a reader that follows a log: by a watch on the log's folder where it lies on this machine, else when this process has uploaded more
// of it, and at the latest by a slow look. Knows when the task has ended, after which one more read sees everything.

import { watch } from "node:fs"
import type { FSWatcher } from "node:fs"
import { dirname } from "node:path"
import { logKey } from "./log-keys.ts"
import type { ObjectStore } from "../objects.ts"

const LOOK_MS = 1000
/** The folder is made with the first byte of output. */
const LOOK_FOR_FOLDER_MS = 100

/** Readers of logs that are uploaded by this process, by store and prefix. */
const followers = new WeakMap<ObjectStore, Map<string, Set<() => void>>>()

/** There is more to read. */
export const notifyReaders = (objects: ObjectStore, prefix: string): void => {
  for (const wake of followers.get(objects)?.get(prefix) ?? []) wake()
}

const follow = (objects: ObjectStore, prefix: string, wake: () => void): (() => void) => {
  const logs = followers.get(objects) ?? new Map<string, Set<() => void>>()
  const readers = logs.get(prefix) ?? new Set()
  followers.set(objects, logs)
  logs.set(prefix, readers.add(wake))
  return () => {
    readers.delete(wake)
    if (readers.size === 0) logs.delete(prefix)
  }
}

export class LogWatcher {
  readonly #folder: string | null
  readonly #ended: AbortSignal | undefined
  readonly #onEnded = (): void => this.#wake()
  #unfollow: (() => void) | null = null
  #watcher: FSWatcher | null = null
  #dirty = false
  #waiting: (() => void) | null = null

  /** Without `ended` the log counts as ended. */
  constructor(objects: ObjectStore, prefix: string, ended: AbortSignal | undefined) {
    this.#folder = objects.localPath ? dirname(objects.localPath(logKey(prefix))) : null
    this.#ended = ended
    if (this.ended) return
    ended?.addEventListener("abort", this.#onEnded)
    if (this.#folder === null) this.#unfollow = follow(objects, prefix, this.#onEnded)
    this.#watch()
  }

  get ended(): boolean {
    return this.#ended === undefined || this.#ended.aborted
  }

  /** Resolves when there may be something new. */
  next(): Promise<void> {
    if (this.#watcher === null) this.#watch()
    if (this.#dirty || this.ended) {
      this.#dirty = false
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => this.#wake(),
        this.#watcher === null && this.#folder !== null ? LOOK_FOR_FOLDER_MS : LOOK_MS,
      )
      this.#waiting = () => {
        clearTimeout(timer)
        this.#waiting = null
        this.#dirty = false
        resolve()
      }
    })
  }

  close(): void {
    this.#ended?.removeEventListener("abort", this.#onEnded)
    this.#watcher?.close()
    this.#unfollow?.()
    this.#wake()
  }

  #wake(): void {
    this.#dirty = true
    this.#waiting?.()
  }

  #watch(): void {
    if (this.#folder === null) return
    try {
      this.#watcher = watch(this.#folder, { persistent: false }, () => this.#wake())
      this.#watcher.on("error", () => {
        this.#watcher?.close()
        this.#watcher = null
      })
      // What was written before the watch began made no event.
      this.#dirty = true
    } catch {
      this.#watcher = null
    }
  }
}
