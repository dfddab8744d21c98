// This engine as a lease holder: registers under an id that is new at every start, renews its lease where the store uses leases, and
// reaps dead holders: once at its start, and a server every few seconds. Their attempts end as `lost`, except for remote work, which
// this engine adopts.

import { finishesWithin } from "../finishes-within.ts"
import { nodeOf, retriesUsed } from "../attempts/claims.ts"
import { type EngineOptions, privateRunOf } from "../ports.ts"
import { type Change, fenceOf } from "../../core/model/change.ts"
import { decide } from "../../core/rules/changes/decide.ts"
import { type HolderId, newHolderId } from "../../core/model/ids.ts"
import { renewalMs, SERVER_LEASE_MS } from "../../core/settings/leases.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { AbandonedRun, Claim, OrphanedAttempt } from "../../store/contract/store.ts"

const REAP_PAGE = 500
/** Number of private runs of dead processes that a server ends at a time. */
const MAX_ABANDONED = 100
const NEXT_PAGE_MS = 50
const DEREGISTER_TIMEOUT_MS = 3000

export interface LeaseHolderHandlers {
  submit(change: Change): void
  /** Called when the lease was lost: other holders may own the attempts of this engine. */
  evicted(): void
  /** Runs every few seconds. Finds work without a notification: a lost one, or gate claims of a dead holder. */
  wake(): void
  /**
   * Called when the engine has adopted an attempt of a dead holder; its work runs elsewhere. `startedAt` in milliseconds; null: not
   * started.
   */
  adopted(claim: Claim, startedAt: number | null): void
  /** Called each time with all abandoned private runs: only servers claim for them now. */
  abandoned(runs: AbandonedRun[]): void
}

export class LeaseHolder {
  readonly #options: EngineOptions
  readonly #handlers: LeaseHolderHandlers
  readonly #leaseMs: number
  readonly #renewalMs: number
  #id: HolderId
  #cancelRenewal: (() => void) | null = null
  #stopGuard: (() => void) | null = null
  #reaping = false

  constructor(options: EngineOptions, handlers: LeaseHolderHandlers) {
    this.#options = options
    this.#handlers = handlers
    this.#leaseMs = options.leaseMs ?? SERVER_LEASE_MS
    this.#renewalMs = renewalMs(this.#leaseMs)
    this.#id = this.#newId()
  }

  get id(): HolderId {
    return this.#id
  }

  async start(): Promise<void> {
    const { store, holder } = this.#options
    if (holder.kind === "server") await store.extendWorkerLeases()
    await this.#register()
    if (store.usesLeases || holder.kind === "server") this.#scheduleRenewal()
    this.#reaping = true
    try {
      await this.#reap()
    } catch (error) {
      this.#stopRenewal()
      throw error
    }
    this.#reaping = false
  }

  /** Keeps the lease while handlers block the event loop. Called when work starts: a process that only waits needs no guard. */
  guard(): void {
    const { store, stallMs, log } = this.#options
    if (stallMs === undefined || this.#stopGuard !== null || store.guardLease === undefined) return
    this.#stopGuard = store.guardLease({
      id: this.#id,
      leaseMs: this.#leaseMs,
      stallMs,
      onEvicted: () => void this.#replaceEvictedLease(),
      onError: (error) =>
        log.warn({ error: String(error) }, "the event loop is not watched; while it is blocked, the lease is not renewed"),
    })
  }

  async stop(): Promise<void> {
    this.#stopRenewal()
    this.#stopGuard?.()
    const { store, clock, log } = this.#options
    const deregistered = store.deregisterHolder(this.#id).catch((error: unknown) => {
      log.error({ error: String(error) }, "failed to deregister; the lease will expire")
    })
    await finishesWithin(clock, DEREGISTER_TIMEOUT_MS, deregistered)
  }

  /** Reaps dead holders. Tries again later if that fails. */
  async reap(): Promise<void> {
    await this.#reap().catch((error: unknown) => {
      this.#options.log.warn({ error: String(error) }, "failed to reap dead holders; trying again")
      this.#options.clock.after(this.#renewalMs, () => void this.reap())
    })
  }

  /** Ends or adopts one page of attempts. The next page is read after the changes of a full one had time to be committed. */
  async #reap(): Promise<void> {
    const { store, clock, holder, executors } = this.#options
    const attempts = await store.reapHolders(REAP_PAGE, { workers: holder.kind === "server" })
    const remote: OrphanedAttempt[] = []
    for (const attempt of attempts) {
      if (attempt.kind !== "job") await store.getVersion(attempt.versionId)
      const { node } = nodeOf(store, attempt)
      if (executors.get(node.executor)?.remote === true) remote.push(attempt)
      else this.#handlers.submit(this.#lostChange(attempt, node))
    }
    if (remote.length > 0) await this.#adopt(remote)
    if (holder.kind === "server") this.#handlers.abandoned(await store.listAbandonedRuns(MAX_ABANDONED))
    if (attempts.length === REAP_PAGE) clock.after(NEXT_PAGE_MS, () => void this.reap())
  }

  async #adopt(attempts: OrphanedAttempt[]): Promise<void> {
    const starts = new Map(attempts.map(({ attemptId, startedAt }) => [attemptId, startedAt]))
    for (const claim of await this.#options.store.adopt(this.#id, attempts.map(fenceOf))) {
      const startedAt = starts.get(claim.attemptId) ?? null
      this.#handlers.adopted(claim, startedAt === null ? null : Date.parse(startedAt))
    }
  }

  #lostChange(attempt: OrphanedAttempt, node: Node): Change {
    const { clock, random } = this.#options
    const result = {
      state: "lost",
      startedAt: attempt.startedAt === null ? null : Date.parse(attempt.startedAt),
      finishedAt: clock.now(),
      error: "lost: the process that ran it died",
    } as const
    const history = { ...fenceOf(attempt), ...retriesUsed(attempt), cancelling: attempt.cancelling !== null }
    return decide(history, node, result, random.next())
  }

  #newId(): HolderId {
    return newHolderId(this.#options.clock.now(), this.#options.random.hex128())
  }

  async #register(): Promise<void> {
    const { store, holder } = this.#options
    await store.registerHolder({ id: this.#id, ...holder, leaseMs: this.#leaseMs, runId: privateRunOf(this.#options) })
  }

  #scheduleRenewal(delayMs = this.#renewalMs): void {
    this.#cancelRenewal = this.#options.clock.after(delayMs, () => void this.#renew())
  }

  #stopRenewal(): void {
    this.#cancelRenewal?.()
    this.#cancelRenewal = null
  }

  /** Renews the lease. Does not wait for the reaping, which may take longer than the lease: it shares connections with other writes. */
  async #renew(): Promise<void> {
    const { store, clock } = this.#options
    const begunAt = clock.monotonic()
    try {
      if (store.usesLeases) await this.#renewOrReplaceLease()
    } catch (error) {
      this.#renewalFailed(error)
    }
    if (this.#cancelRenewal === null) return
    // A reply may be old: this process may have been paused for longer than its lease while it waited.
    this.#scheduleRenewal(Math.max(0, this.#renewalMs - (clock.monotonic() - begunAt)))
    if (!this.#reaping) await this.#reapThenWake()
  }

  async #reapThenWake(): Promise<void> {
    const { store, log } = this.#options
    this.#reaping = true
    try {
      await this.#reap()
    } catch (error) {
      log.warn({ error: String(error) }, "failed to reap dead holders; trying again")
    }
    this.#reaping = false
    if (store.usesLeases && this.#cancelRenewal !== null) this.#handlers.wake()
  }

  async #renewOrReplaceLease(): Promise<void> {
    const { store, log } = this.#options
    if (await store.renewLease(this.#id, this.#leaseMs)) return
    log.warn({ holder: this.#id }, "the lease was lost; registering under a new id")
    this.#handlers.evicted()
    this.#stopGuard?.()
    this.#stopGuard = null
    this.#id = this.#newId()
    await this.#register()
  }

  async #replaceEvictedLease(): Promise<void> {
    try {
      await this.#renewOrReplaceLease()
    } catch (error) {
      this.#renewalFailed(error)
      this.#options.clock.after(this.#renewalMs, () => void this.#replaceEvictedLease())
    }
  }

  #renewalFailed(error: unknown): void {
    this.#options.log.warn({ error: String(error) }, "failed to renew the lease; trying again")
  }
}
