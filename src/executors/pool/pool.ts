// Keeps worker processes warm, in sets that share code and runtime. A task gets an idle worker of its set, or waits for one. A
// few workers per core are started at once; more, up to the maximum, only if tasks take long enough for another process to
// help. Workers are retired after a number of tasks, when their code has changed, after an idle time, or in favour of another
// set.

import type { Clock } from "../../core/model/ports.ts"
import { CodeFiles } from "./code-files.ts"
import { ReportBatcher } from "./report-batcher.ts"
import type { PoolWorker } from "./worker.ts"
import { asError } from "../../core/values/error-message.ts"

/**
 * Average duration from which tasks justify another process: for shorter ones, a worker becomes free before a new one is ready.
 */
const LONG_TASK_MS = 5
/** Interval between polls while tasks wait. */
const POLL_MS = 10
/**
 * Polls after which a running task counts as long although none has ended yet. Polls are counted instead of time: after a pause
 * of this process, there are ends that it has not read.
 */
const LONG_TASK_POLLS = 5
/** Polls for a worker that may still load its code, which another process would not do faster. */
const LONG_LOAD_POLLS = 20
/** Time for a retired worker to exit by itself. */
const RETIRE_MS = 2000

export interface PoolOptions {
  clock: Clock
  maxWorkers: number
  /** Number of workers up to which one is started at once, however short tasks are. */
  eagerWorkers: number
  /** Number of tasks after which a worker is retired. */
  maxTasks: number
  /** Idle time after which a worker is retired. */
  idleMs: number
}

export interface WorkerSetOptions {
  /** Identifies the set. */
  name: string
  /** True when the code cannot change and is not checked. */
  fixed: boolean
  /** True when each worker runs only one task. */
  single: boolean
  start(): Promise<PoolWorker>
}

interface Waiter {
  resolve(worker: PoolWorker): void
  reject(error: unknown): void
}

class WorkerSet {
  readonly options: WorkerSetOptions
  readonly code = new CodeFiles()
  /** Used as a stack, so that workers that are not needed stay idle until they are retired. */
  readonly idle: { worker: PoolWorker; since: number }[] = []
  readonly busy = new Set<PoolWorker>()
  /** Busy workers whose code has changed. */
  readonly outdated = new Set<PoolWorker>()
  readonly waiting: Waiter[] = []
  readonly reports: ReportBatcher
  starting = 0
  /** Moving average of the duration of tasks, with a cap on single ones. */
  averageMs = 0

  constructor(options: WorkerSetOptions, clock: Clock) {
    this.options = options
    this.reports = new ReportBatcher(clock)
  }

  get hasShortTasks(): boolean {
    return this.averageMs < LONG_TASK_MS
  }

  get size(): number {
    return this.idle.length + this.busy.size + this.outdated.size + this.starting
  }
}

export class WorkerPool {
  readonly #options: PoolOptions
  readonly #sets = new Map<string, WorkerSet>()
  /** Workers that are starting or exiting. */
  readonly #pending = new Set<Promise<unknown>>()
  #cancelPoll: (() => void) | null = null
  #cancelIdleCheck: (() => void) | null = null
  #stopped = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  get size(): number {
    let size = 0
    for (const set of this.#sets.values()) size += set.size
    return size
  }

  /** Returns a worker for one task. Rejects when none can be started, or when the signal aborts. */
  acquire(options: WorkerSetOptions, signal: AbortSignal): Promise<PoolWorker> | PoolWorker {
    if (this.#stopped) throw new Error("the pool has stopped")
    let set = this.#sets.get(options.name)
    if (set === undefined) this.#sets.set(options.name, (set = new WorkerSet(options, this.#options.clock)))
    this.#retireOutdated(set)
    for (let found = set.idle.pop(); found !== undefined; found = set.idle.pop()) {
      if (found.worker.dead) continue
      set.busy.add(found.worker)
      return found.worker
    }
    return this.#wait(set, signal)
  }

  /**
   * Returns a worker whose task has ended. With `retireMs`, the worker and all processes that the task left are ended, and
   * killed after that time. Resolves when the worker is free, or gone if `retireMs` is given.
   */
  async returnWorker(options: WorkerSetOptions, worker: PoolWorker, retireMs: number | null): Promise<void> {
    const set = this.#sets.get(options.name)!
    set.busy.delete(worker)
    const outdated = set.outdated.delete(worker)
    // The first of several tasks is not counted, because it loads the code.
    if (worker.tasks > 1 || options.single)
      set.averageMs = set.averageMs * 0.9 + Math.min(worker.lastMs, 2 * LONG_TASK_MS) * 0.1
    const { maxTasks } = this.#options
    const reusable = !outdated && !worker.dead && !options.single && worker.tasks < maxTasks && !this.#stopped
    if (reusable && retireMs === null) return this.#assign(set, worker)
    const retired = this.#retire(worker, retireMs ?? RETIRE_MS)
    this.#grow(set)
    if (retireMs !== null) await retired
  }

  /** Resolves when the result of a task of this set may be reported. */
  async reportReady({ name }: WorkerSetOptions): Promise<void> {
    const set = this.#sets.get(name)
    if (set?.hasShortTasks === true) await set.reports.ready(set.waiting.length)
  }

  /** Ends every worker. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelPoll?.()
    this.#cancelIdleCheck?.()
    for (const set of this.#sets.values()) {
      for (const { worker } of set.idle.splice(0)) void this.#retire(worker)
      for (const worker of [...set.busy, ...set.outdated]) {
        worker.kill()
        this.#pending.add(worker.exited)
      }
      for (const waiter of set.waiting.splice(0)) waiter.reject(new Error("stopped, because Ork is shutting down"))
      set.reports.flush()
    }
    await Promise.all(this.#pending)
  }

  // -- waiting and starting ----------------------------------------------------------------------------------------------------

  #wait(set: WorkerSet, signal: AbortSignal): Promise<PoolWorker> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        resolve: (worker) => {
          signal.removeEventListener("abort", onAbort)
          resolve(worker)
        },
        reject: (error) => {
          signal.removeEventListener("abort", onAbort)
          reject(asError(error))
        },
      }
      const onAbort = (): void => {
        const index = set.waiting.indexOf(waiter)
        if (index >= 0) set.waiting.splice(index, 1)
        waiter.reject(new Error("stopped"))
      }
      signal.addEventListener("abort", onAbort, { once: true })
      set.waiting.push(waiter)
      this.#grow(set)
    })
  }

  /** Gives a worker to the task that has waited longest, or makes it idle. */
  #assign(set: WorkerSet, worker: PoolWorker): void {
    const waiter = set.waiting.shift()
    if (waiter !== undefined) {
      set.busy.add(worker)
      waiter.resolve(worker)
      return
    }
    set.idle.push({ worker, since: this.#options.clock.monotonic() })
    this.#scheduleIdleCheck()
  }

  #grow(set: WorkerSet): void {
    while (set.waiting.length > set.starting && this.#mayStart(set)) this.#start(set)
    if (set.waiting.length > 0) this.#schedulePoll()
  }

  #mayStart(set: WorkerSet): boolean {
    const { maxWorkers, eagerWorkers } = this.#options
    if (set.starting >= eagerWorkers) return false
    if (set.size >= eagerWorkers && set.hasShortTasks) {
      for (const worker of set.busy) {
        if (worker.busyPolls < (worker.loaded ? LONG_TASK_POLLS : LONG_LOAD_POLLS)) return false
      }
    }
    return this.size < maxWorkers || this.#retireLongestIdle()
  }

  /** Returns false when no worker is idle. */
  #retireLongestIdle(): boolean {
    let oldest: WorkerSet | null = null
    for (const set of this.#sets.values()) {
      if (set.idle.length > 0 && (oldest === null || set.idle[0]!.since < oldest.idle[0]!.since)) oldest = set
    }
    if (oldest === null) return false
    void this.#retire(oldest.idle.shift()!.worker)
    return true
  }

  #start(set: WorkerSet): void {
    set.starting += 1
    const starting = set.options
      .start()
      .then(
        (worker) => {
          set.starting -= 1
          worker.onFiles = (files) => {
            if (!set.options.fixed) set.code.add(files)
          }
          if (this.#stopped) void this.#retire(worker)
          else this.#assign(set, worker)
        },
        (error: unknown) => {
          set.starting -= 1
          set.waiting.shift()?.reject(error)
          this.#grow(set)
        },
      )
      .finally(() => this.#pending.delete(starting))
    this.#pending.add(starting)
  }

  #schedulePoll(): void {
    this.#cancelPoll ??= this.#options.clock.after(POLL_MS, () => {
      this.#cancelPoll = null
      for (const set of this.#sets.values()) {
        if (set.waiting.length === 0) continue
        for (const worker of set.busy) worker.busyPolls += 1
        this.#grow(set)
      }
    })
  }

  // -- retiring ----------------------------------------------------------------------------------------------------------------

  /** Retires all workers of a set whose code has changed: idle ones at once, busy ones after their task. */
  #retireOutdated(set: WorkerSet): void {
    if (set.options.fixed || !set.code.changed(this.#options.clock.monotonic())) return
    for (const { worker } of set.idle.splice(0)) void this.#retire(worker)
    for (const worker of set.busy) set.outdated.add(worker)
    set.busy.clear()
  }

  /** Makes a worker exit, and kills it after `timeoutMs`. Resolves when it has exited. */
  #retire(worker: PoolWorker, timeoutMs = RETIRE_MS): Promise<unknown> {
    worker.closeInput()
    const cancel = this.#options.clock.after(timeoutMs, () => worker.kill())
    const exiting = worker.exited.finally(() => {
      cancel()
      this.#pending.delete(exiting)
    })
    this.#pending.add(exiting)
    return exiting
  }

  #scheduleIdleCheck(): void {
    this.#cancelIdleCheck ??= this.#options.clock.after(this.#options.idleMs / 2, () => {
      this.#cancelIdleCheck = null
      this.#retireIdle()
    })
  }

  #retireIdle(): void {
    const { clock, idleMs } = this.#options
    const now = clock.monotonic()
    for (const [name, set] of this.#sets) {
      while (set.idle.length > 0 && now - set.idle[0]!.since >= idleMs) void this.#retire(set.idle.shift()!.worker)
      if (set.idle.length > 0) this.#scheduleIdleCheck()
      else if (set.size === 0 && set.waiting.length === 0) this.#sets.delete(name)
    }
  }
}
