// Polls the queue for all jobs together: every second while jobs change, down to every 10 s while nothing changes, and never
// while there is no job. A controller that does not respond is polled at the same pace.

import { messageOf } from "../../core/values/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { SlurmCli } from "./cli.ts"
import { isOver, parseScontrol, parseSqueue, QueueUnavailable, type QueuedJob } from "./queue.ts"

const MIN_INTERVAL_MS = 1000
const MAX_INTERVAL_MS = 10_000
const GROWTH = 1.5
/** Time until a poll that was requested. */
const SOON_MS = 200

/** Identifies a job: the name of its submission, and its task in the array. */
export interface JobLocation {
  name: string
  index: number
}

export interface QueueWatch {
  /** The job as of the last poll; null when it is not in the queue, undefined before the first poll. */
  readonly job: QueuedJob | null | undefined
  /** The job as it was last seen in the queue; null before. */
  readonly lastSeen: QueuedJob | null
  /** Successive polls in which the job was not in the queue. */
  readonly misses: number
  close(): void
}

interface Watcher extends JobLocation {
  job: QueuedJob | null | undefined
  lastSeen: QueuedJob | null
  misses: number
  onPoll: () => void
}

export class QueuePoller {
  readonly #cli: Pick<SlurmCli, "call">
  readonly #clock: Clock
  readonly #watchers = new Set<Watcher>()
  #interval = MIN_INTERVAL_MS
  #cancelTimer: (() => void) | null = null
  #polling: Promise<void> | null = null
  /** False once `squeue --json` has turned out to be unsupported. */
  #json = true
  /** Ids and states as of the last poll, to notice changes. */
  #lastStates = ""
  /** True after `stop`. */
  isStopped = false
  /** Error of the last poll; null when it succeeded. */
  problem: string | null = null

  constructor(cli: Pick<SlurmCli, "call">, clock: Clock) {
    this.#cli = cli
    this.#clock = clock
  }

  /** Watches a job. `onPoll` is called after each poll, successful or not. */
  watch(location: JobLocation, onPoll: () => void): QueueWatch {
    const watcher: Watcher = { ...location, job: undefined, lastSeen: null, misses: 0, onPoll }
    this.#watchers.add(watcher)
    this.pollSoon()
    return {
      get job() {
        return watcher.job
      },
      get lastSeen() {
        return watcher.lastSeen
      },
      get misses() {
        return watcher.misses
      },
      close: () => {
        this.#watchers.delete(watcher)
        if (this.#watchers.size === 0) this.#cancelPoll()
      },
    }
  }

  /** Polls once; rejects with QueueUnavailable when the queue cannot be read or the poller was stopped. */
  async find(location: JobLocation): Promise<QueuedJob | null> {
    const polled = Promise.withResolvers<void>()
    // A poll that was in flight before leaves the job undefined.
    const watch = this.watch(location, () => {
      if (watch.job !== undefined || this.problem !== null) polled.resolve()
    })
    try {
      if (!this.isStopped) await polled.promise
      if (watch.job === undefined) throw new QueueUnavailable(this.problem ?? "the queue could not be read")
      return watch.job
    } finally {
      watch.close()
    }
  }

  /** Polls soon, and often from now on: something has happened. */
  pollSoon(): void {
    this.#interval = MIN_INTERVAL_MS
    if (this.#polling !== null) return
    this.#pollAfter(SOON_MS)
  }

  /** Stops for good. Every pending and later `find` rejects. */
  stop(): void {
    this.isStopped = true
    this.problem = "Ork is stopping"
    this.#cancelPoll()
    for (const { onPoll } of this.#watchers) onPoll()
  }

  #cancelPoll(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
  }

  #pollAfter(ms: number): void {
    this.#cancelPoll()
    if (!this.isStopped) this.#cancelTimer = this.#clock.after(ms, () => this.#poll())
  }

  #poll(): void {
    // A watch that is added during the poll must not see a queue that was read before.
    const watchers = [...this.#watchers]
    this.#polling = this.#readQueue()
      .then((jobs) => this.#update(watchers, jobs))
      .catch((error: unknown) => {
        this.problem = messageOf(error)
      })
      .finally(() => {
        this.#polling = null
        if (this.#watchers.size === 0) return
        this.#pollAfter(this.#interval)
        this.#interval = Math.min(MAX_INTERVAL_MS, this.#interval * GROWTH)
        for (const { onPoll } of this.#watchers) onPoll()
      })
  }

  async #readQueue(): Promise<QueuedJob[]> {
    if (this.#json) {
      try {
        return parseSqueue(await this.#cli.call("squeue", ["--json", "--me", "--states=all"]))
      } catch (error) {
        if (error instanceof QueueUnavailable) throw error
        const text = await this.#cli.call("scontrol", ["show", "job", "-o"])
        // scontrol works and squeue does not: this Slurm was built without JSON.
        this.#json = false
        return parseScontrol(text)
      }
    }
    return parseScontrol(await this.#cli.call("scontrol", ["show", "job", "-o"]))
  }

  #update(watchers: Watcher[], jobs: QueuedJob[]): void {
    this.problem = null
    const find = indexJobs(jobs)
    let states = ""
    for (const watcher of watchers) {
      const job = find(watcher)
      watcher.misses = job === null ? watcher.misses + 1 : 0
      watcher.job = job
      watcher.lastSeen = job ?? watcher.lastSeen
      states += `${job?.id} ${job?.state};`
    }
    if (states !== this.#lastStates) this.#interval = MIN_INTERVAL_MS
    this.#lastStates = states
  }
}

/** Returns a lookup by location. Of two jobs at one location (a repeated submission), the one that is not over counts. */
const indexJobs = (jobs: QueuedJob[]): ((location: JobLocation) => QueuedJob | null) => {
  const found = new Map<string, QueuedJob>()
  const put = (key: string, job: QueuedJob): void => {
    const other = found.get(key)
    if (other === undefined || isOver(other)) found.set(key, job)
  }
  for (const job of jobs) {
    if (!job.name.startsWith("ork-")) continue
    if (job.tasks === null) put(`${job.name} ${job.task ?? 0}`, job)
    else for (const task of job.tasks) put(`${job.name} ${task}`, { ...job, id: `${job.id}_${task}`, task, tasks: null })
  }
  return ({ name, index }) => found.get(`${name} ${index}`) ?? null
}
