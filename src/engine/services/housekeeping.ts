// Hourly work of a server and of a program that runs definitions: removes runs, jobs and audit entries past their retention, bundles that
// no version names, folders whose run is gone and cached outputs that have expired, limits of concurrency keys without tasks, and trims the event log to what streams
// may still resume from. Several processes may do it at once: what one of them has removed is no work for the others.

import type { Logger } from "../ports.ts"
import type { Clock } from "../../core/model/ports.ts"
import { LeftFolders } from "./left-folders.ts"
import {
  removeOldRuns,
  removeOldJobs,
  removeUnusedBundles,
  removeUnusedCachedOutputs,
  type RetentionRule,
} from "./retention.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

const INTERVAL_MS = 3_600_000
/** Streams may resume for an hour. */
const EVENTS_KEPT_MS = 3_600_000
const TRIM_BATCH = 500
/** Limits that one pass deletes: each call reads all unfinished rows. */
const LIMITS_BATCH = 10_000
const DAY_MS = 86_400_000
/** Age after which an upload counts as interrupted. */
const UNFINISHED_MS = 2 * DAY_MS

/** What is kept of the past. */
export interface RetentionLimits {
  /** Maximum age of ended runs, finished jobs and audit entries; 0: without limit. */
  retentionDays: number
  /** Maximum number of runs per workflow; 0: without limit. */
  retentionRuns: number
}

export interface HousekeepingOptions extends RetentionLimits {
  store: ServerStore
  objects: ObjectStore
  dataDir: string
  clock: Clock
  log: Logger
  /** Called after runs were removed, also on error: the commit may have succeeded. */
  wake(): void
}

export class Housekeeping {
  readonly #options: HousekeepingOptions
  readonly #leftFolders: LeftFolders
  readonly #stopped = new AbortController()
  #cancel: (() => void) | null = null
  #working: Promise<void> = Promise.resolve()

  constructor(options: HousekeepingOptions) {
    this.#options = options
    this.#leftFolders = new LeftFolders(options)
  }

  start(): void {
    this.#cancel = this.#options.clock.after(INTERVAL_MS, () => {
      this.#working = this.#work().finally(() => {
        if (!this.#stopped.signal.aborted) this.start()
      })
    })
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#cancel?.()
    await this.#working
  }

  async #work(): Promise<void> {
    const { store, log } = this.#options
    try {
      const rule = this.#retentionRule()
      if (rule !== null) await this.#removeOldRuns(rule)
      await removeUnusedBundles(this.#options, this.#stopped.signal)
      await this.#leftFolders.removeSome()
      await removeUnusedCachedOutputs(this.#options, this.#stopped.signal)
      await this.#removeUnfinishedUploads()
      await this.#trim((limit) => store.trimCache(limit))
      await store.trimLimits(LIMITS_BATCH)
      await this.#trim((limit) => store.trimEvents({ olderThanMs: EVENTS_KEPT_MS, limit }))
      if (rule?.olderThanMs !== undefined) await this.#removeOld(rule.olderThanMs)
    } catch (error) {
      log.warn({ error: String(error) }, "housekeeping failed; trying again in an hour")
    }
  }

  /** Runs that waited for the success of a removed one may start. */
  async #removeOldRuns(rule: RetentionRule): Promise<void> {
    const { log, wake } = this.#options
    const { removed, problems } = await removeOldRuns(this.#options, rule, this.#stopped.signal).finally(wake)
    if (removed > 0) log.info({ runs: removed }, "removed runs past their retention")
    for (const [run, problem] of problems) log.warn({ run, problem }, "could not remove a run past its retention")
  }

  /** Removes old jobs and entries of the audit log, which have no maximum number. */
  async #removeOld(olderThanMs: number): Promise<void> {
    const { store, log } = this.#options
    const jobs = await removeOldJobs(this.#options, olderThanMs, this.#stopped.signal)
    if (jobs > 0) log.info({ jobs }, "removed jobs past their retention")
    await this.#trim((limit) => store.trimAudit({ olderThanMs, limit }))
  }

  /** Deletes rows in small transactions, so that no other writer waits long. */
  async #trim(deleteSome: (limit: number) => Promise<number>): Promise<void> {
    while (!this.#stopped.signal.aborted) if ((await deleteSome(TRIM_BATCH)) < TRIM_BATCH) return
  }

  /** Credentials may lack this permission: that does not stop the other work. */
  async #removeUnfinishedUploads(): Promise<void> {
    const { objects, log } = this.#options
    await objects.removeUnfinished?.(UNFINISHED_MS)?.catch((error: unknown) => {
      log.warn({ error: String(error) }, "could not remove interrupted uploads")
    })
  }

  #retentionRule(): RetentionRule | null {
    const { retentionDays, retentionRuns } = this.#options
    if (retentionDays === 0 && retentionRuns === 0) return null
    return {
      ...(retentionDays > 0 && { olderThanMs: retentionDays * DAY_MS }),
      ...(retentionRuns > 0 && { keep: retentionRuns }),
    }
  }
}
