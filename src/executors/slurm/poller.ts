// One look at the queue for all jobs together: every second while something happens, less often up to every 10 s while nothing does, and
// never while there is no job. A controller that does not answer is asked again in the same way.

import { messageOf } from "../../core/model/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { SlurmCli } from "./cli.ts"
import { isOver, parseScontrol, parseSqueue, type QueuedJob } from "./queue.ts"

const FIRST_MS = 1000
const LAST_MS = 10_000
const GROWTH = 1.5
/** Between the end of a look and the next one that is asked for. */
const SOON_MS = 200

/** Where a job is found: the name of its submission, and its task in it. */
export interface JobPlace {
  name: string
  index: number
}

export interface Watch {
  /** null: not in the queue. undefined: nobody has looked since the watch began. */
  readonly job: QueuedJob | null | undefined
  /** Looks that it was not in the queue, one after the other. */
  readonly misses: number
  close(): void
}

interface Watcher extends JobPlace {
  job: QueuedJob | null | undefined
  misses: number
  told: () => void
}

export class QueuePoller {
  readonly #cli: Pick<SlurmCli, "call">
  readonly #clock: Clock
  readonly #watchers = new Set<Watcher>()
  #interval = FIRST_MS
  #cancel: (() => void) | null = null
  #looking: Promise<void> | null = null
  #json = true
  #known = ""
  #stopped = false
  /** Why the last look failed; null: it did not. */
  problem: string | null = null

  constructor(cli: Pick<SlurmCli, "call">, clock: Clock) {
    this.#cli = cli
    this.#clock = clock
  }

  /** `told` is called after each look. */
  watch(place: JobPlace, told: () => void): Watch {
    const watcher: Watcher = { ...place, job: undefined, misses: 0, told }
    this.#watchers.add(watcher)
    this.soon()
    return {
      get job() {
        return watcher.job
      },
      get misses() {
        return watcher.misses
      },
      close: () => {
        this.#watchers.delete(watcher)
        if (this.#watchers.size === 0) this.#rest()
      },
    }
  }

  /** Looks once; rejects when the queue cannot be had, or nobody looks any more. */
  async find(place: JobPlace): Promise<QueuedJob | null> {
    const seen = Promise.withResolvers<void>()
    // A look that was on its way before knows nothing of this one.
    const watch = this.watch(place, () => {
      if (watch.job !== undefined || this.problem !== null) seen.resolve()
    })
    try {
      if (!this.#stopped) await seen.promise
      if (watch.job === undefined) throw new Error(this.problem ?? "the queue could not be read")
      return watch.job
    } finally {
      watch.close()
    }
  }

  /** Something has happened: look soon, and often from now on. */
  soon(): void {
    this.#interval = FIRST_MS
    if (this.#looking !== null) return
    this.#lookAfter(SOON_MS)
  }

  /** For good: whoever waits for a look is told that there is none. */
  stop(): void {
    this.#stopped = true
    this.problem = "Ork is stopping"
    this.#rest()
    for (const { told } of this.#watchers) told()
  }

  #rest(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  #lookAfter(ms: number): void {
    this.#rest()
    if (!this.#stopped) this.#cancel = this.#clock.after(ms, () => this.#look())
  }

  #look(): void {
    // A watch that begins while the answer is on its way must not be told of a queue from before.
    const asking = [...this.#watchers]
    this.#looking = this.#ask()
      .then((jobs) => this.#tell(asking, jobs))
      .catch((error: unknown) => {
        this.problem = messageOf(error)
      })
      .finally(() => {
        this.#looking = null
        if (this.#watchers.size === 0) return
        this.#lookAfter(this.#interval)
        this.#interval = Math.min(LAST_MS, this.#interval * GROWTH)
        for (const { told } of this.#watchers) told()
      })
  }

  async #ask(): Promise<QueuedJob[]> {
    if (this.#json) {
      try {
        return parseSqueue(await this.#cli.call("squeue", ["--json", "--me", "--states=all"]))
      } catch (error) {
        // A Slurm that was built without it: never again.
        const text = await this.#cli.call("scontrol", ["show", "job", "-o"]).catch(() => {
          throw error
        })
        this.#json = false
        return parseScontrol(text)
      }
    }
    return parseScontrol(await this.#cli.call("scontrol", ["show", "job", "-o"]))
  }

  #tell(asking: Watcher[], jobs: QueuedJob[]): void {
    this.problem = null
    const byPlace = placesOf(jobs)
    let known = ""
    for (const watcher of asking) {
      const job = byPlace(watcher)
      watcher.misses = job === null ? watcher.misses + 1 : 0
      watcher.job = job
      known += `${job?.id} ${job?.state};`
    }
    if (known !== this.#known) this.#interval = FIRST_MS
    this.#known = known
  }
}

/** Two of one place are a submission that was repeated: the one that is not over counts. */
const placesOf = (jobs: QueuedJob[]): ((place: JobPlace) => QueuedJob | null) => {
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
