// Keeps worker processes warm, in groups that share code and runtime. A task takes an idle worker of its group, else waits for one.
// There are a few workers per core at once; more, up to the limit, only where tasks take long enough for another process to
// help. Workers go after so many tasks, when their code changed, when nobody needed them for a while, or to make place for
// another group's.

import type { Clock } from "../../core/model/ports.ts"
import { CodeWatch } from "./code-watch.ts"
import { Ends } from "./ends.ts"
import type { PoolWorker } from "./worker.ts"

/** Shorter tasks are waited for: a new process would come later than the next free one. */
const LONG_TASK_MS = 5
/** Between looks at tasks that wait. */
const LOOK_MS = 10
/**
 * A task that was seen at work so often is a long one, though none has ended yet. Looks are counted rather than time: when this process
 * itself was held up, ends have come that it has not read.
 */
const LONG_LOOKS = 5
/** The same of a worker that may be loading its code, which no other process would do sooner. */
const LONG_LOAD_LOOKS = 20
/** How long a worker may take to end by itself. */
const GOODBYE_MS = 2000

export interface PoolOptions {
  clock: Clock
  /** Worker processes at most. */
  limit: number
  /** Worker processes that are started at once, without looking how long tasks take. */
  atOnce: number
  /** A worker goes after so many tasks. */
  maxTasks: number
  idleMs: number
}

export interface GroupOptions {
  /** Groups of the same name are one. */
  name: string
  /** The code cannot change: nobody looks. */
  fixed: boolean
  /** A worker runs one task and goes. */
  single: boolean
  start(): Promise<PoolWorker>
}

interface Waiter {
  since: number
  resolve(worker: PoolWorker): void
  reject(error: unknown): void
}

class Group {
  readonly options: GroupOptions
  readonly watch = new CodeWatch()
  /** The one that was used last is taken first, so that others become idle for good. */
  readonly idle: { worker: PoolWorker; since: number }[] = []
  readonly busy = new Set<PoolWorker>()
  /** Those at work with code that has changed since. */
  readonly old = new Set<PoolWorker>()
  readonly waiting: Waiter[] = []
  readonly ends: Ends
  starting = 0
  /** A moving average, in which a few tasks that were held up do not count for more than others. */
  taskMs = 0

  constructor(options: GroupOptions, clock: Clock) {
    this.options = options
    this.ends = new Ends(clock)
  }

  get short(): boolean {
    return this.taskMs < LONG_TASK_MS
  }

  get size(): number {
    return this.idle.length + this.busy.size + this.old.size + this.starting
  }
}

export class WorkerPool {
  readonly #options: PoolOptions
  readonly #groups = new Map<string, Group>()
  /** Workers on their way out. */
  readonly #leaving = new Set<Promise<unknown>>()
  #cancelLook: (() => void) | null = null
  #cancelTidy: (() => void) | null = null
  #stopped = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  get size(): number {
    let size = 0
    for (const group of this.#groups.values()) size += group.size
    return size
  }

  /** A worker for one task. Rejects when none can be started, or with the signal's reason. */
  acquire(options: GroupOptions, signal: AbortSignal): Promise<PoolWorker> | PoolWorker {
    if (this.#stopped) throw new Error("the pool has stopped")
    let group = this.#groups.get(options.name)
    if (group === undefined) this.#groups.set(options.name, (group = new Group(options, this.#options.clock)))
    this.#dropOld(group)
    for (let found = group.idle.pop(); found !== undefined; found = group.idle.pop()) {
      if (found.worker.dead) continue
      group.busy.add(found.worker)
      return found.worker
    }
    return this.#wait(group, signal)
  }

  /**
   * The task has ended. With `retireMs` the worker goes, with all that the task left behind, and is killed if that takes longer.
   * Resolves when it is gone or free.
   */
  async release(options: GroupOptions, worker: PoolWorker, retireMs: number | null): Promise<void> {
    const group = this.#groups.get(options.name)!
    group.busy.delete(worker)
    const old = group.old.delete(worker)
    // The first of several tasks loads the code for all.
    if (worker.tasks > 1 || options.single) group.taskMs = group.taskMs * 0.9 + Math.min(worker.lastMs, 2 * LONG_TASK_MS) * 0.1
    const done =
      retireMs !== null || old || worker.dead || options.single || worker.tasks >= this.#options.maxTasks || this.#stopped
    if (!done) return this.#give(group, worker)
    const leaving = this.#dismiss(worker, retireMs ?? GOODBYE_MS)
    this.#grow(group)
    // Only what the task left behind is worth waiting for.
    if (retireMs !== null) await leaving
  }

  /** Resolves when the end of a task of this group may be told. */
  async tell({ name }: GroupOptions): Promise<void> {
    const group = this.#groups.get(name)
    if (group?.short === true) await group.ends.tell(group.waiting.length)
  }

  /** Ends every worker. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelLook?.()
    this.#cancelTidy?.()
    for (const group of this.#groups.values()) {
      for (const { worker } of group.idle.splice(0)) void this.#dismiss(worker)
      for (const worker of [...group.busy, ...group.old]) {
        worker.kill()
        this.#leaving.add(worker.gone)
      }
      for (const waiter of group.waiting.splice(0)) waiter.reject(new Error("stopped, because Ork is shutting down"))
      group.ends.flush()
    }
    await Promise.all(this.#leaving)
  }

  // -- waiting and starting ----------------------------------------------------------------------------------------------------

  #wait(group: Group, signal: AbortSignal): Promise<PoolWorker> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        since: this.#options.clock.now(),
        resolve: (worker) => {
          signal.removeEventListener("abort", onAbort)
          resolve(worker)
        },
        reject: (error) => {
          signal.removeEventListener("abort", onAbort)
          reject(error instanceof Error ? error : new Error(String(error)))
        },
      }
      const onAbort = (): void => {
        const place = group.waiting.indexOf(waiter)
        if (place >= 0) group.waiting.splice(place, 1)
        waiter.reject(new Error("stopped"))
      }
      signal.addEventListener("abort", onAbort, { once: true })
      group.waiting.push(waiter)
      this.#grow(group)
    })
  }

  #give(group: Group, worker: PoolWorker): void {
    const waiter = group.waiting.shift()
    if (waiter !== undefined) {
      group.busy.add(worker)
      waiter.resolve(worker)
      return
    }
    group.idle.push({ worker, since: this.#options.clock.now() })
    this.#tidyLater()
  }

  #grow(group: Group): void {
    while (group.waiting.length > group.starting && this.#mayStart(group)) this.#start(group)
    if (group.waiting.length > 0) this.#lookLater()
  }

  #mayStart(group: Group): boolean {
    const { limit, atOnce } = this.#options
    if (group.starting >= atOnce) return false
    if (group.size >= atOnce && group.short) {
      for (const worker of group.busy) if (worker.looks < (worker.loaded ? LONG_LOOKS : LONG_LOAD_LOOKS)) return false
    }
    return this.size < limit || this.#makePlace()
  }

  /** Sends away the worker that was idle longest. */
  #makePlace(): boolean {
    let oldest: Group | null = null
    for (const group of this.#groups.values()) {
      if (group.idle.length > 0 && (oldest === null || group.idle[0]!.since < oldest.idle[0]!.since)) oldest = group
    }
    if (oldest === null) return false
    void this.#dismiss(oldest.idle.shift()!.worker)
    return true
  }

  #start(group: Group): void {
    group.starting += 1
    const starting = group.options
      .start()
      .then(
        (worker) => {
          group.starting -= 1
          worker.onFiles = (files) => {
            if (!group.options.fixed) group.watch.add(files)
          }
          if (this.#stopped) void this.#dismiss(worker)
          else this.#give(group, worker)
        },
        (error: unknown) => {
          group.starting -= 1
          group.waiting.shift()?.reject(error)
          this.#grow(group)
        },
      )
      .finally(() => this.#leaving.delete(starting))
    this.#leaving.add(starting)
  }

  #lookLater(): void {
    this.#cancelLook ??= this.#options.clock.after(LOOK_MS, () => {
      this.#cancelLook = null
      for (const group of this.#groups.values()) {
        if (group.waiting.length === 0) continue
        for (const worker of group.busy) worker.looks += 1
        this.#grow(group)
      }
    })
  }

  // -- leaving -----------------------------------------------------------------------------------------------------------------

  /** After a change of the code every worker of the group is old: those at work go when their task has ended. */
  #dropOld(group: Group): void {
    if (group.options.fixed || !group.watch.changed(this.#options.clock.now())) return
    for (const { worker } of group.idle.splice(0)) void this.#dismiss(worker)
    for (const worker of group.busy) group.old.add(worker)
    group.busy.clear()
  }

  #dismiss(worker: PoolWorker, patienceMs = GOODBYE_MS): Promise<unknown> {
    worker.hangUp()
    const cancel = this.#options.clock.after(patienceMs, () => worker.kill())
    const leaving = worker.gone.finally(() => {
      cancel()
      this.#leaving.delete(leaving)
    })
    this.#leaving.add(leaving)
    return leaving
  }

  #tidyLater(): void {
    this.#cancelTidy ??= this.#options.clock.after(this.#options.idleMs / 2, () => {
      this.#cancelTidy = null
      this.#tidy()
    })
  }

  #tidy(): void {
    const { clock, idleMs } = this.#options
    const now = clock.now()
    for (const [name, group] of this.#groups) {
      while (group.idle.length > 0 && now - group.idle[0]!.since >= idleMs) void this.#dismiss(group.idle.shift()!.worker)
      if (group.idle.length > 0) this.#tidyLater()
      else if (group.size === 0 && group.waiting.length === 0) this.#groups.delete(name)
    }
  }
}
