// This engine's place among the holders: registered under an id that is new at every start, renewed where the store lives by
// leases, and on the watch for the dead. Their attempts become outcomes `lost`, but for work that lives elsewhere, which goes on
// under this engine.

import { finishesWithin } from "../finishes-within.ts"
import { nodeOf, retriesUsed } from "../attempts/claims.ts"
import type { EngineOptions } from "../ports.ts"
import { type Change, type Fence, fenceOf } from "../../core/model/change.ts"
import { decide } from "../../core/rules/decide.ts"
import { type HolderId, newHolderId } from "../../core/model/ids.ts"
import type { Claim } from "../../store/contract/store.ts"

const LEASE_MS = 10_000
const RENEW_MS = 3_000
const PAGE = 500
const NEXT_PAGE_MS = 50
const GOODBYE_MS = 3000

export class LeaseHolder {
  readonly #options: EngineOptions
  readonly #emit: (change: Change) => void
  /** The holder was given up on: whatever it holds belongs to others now. */
  readonly #deposed: () => void
  /** Time to look for work that nobody told of: a lost notification, what a dead holder's gate had. */
  readonly #look: () => void
  /** Goes on with work that lives elsewhere. */
  readonly #adopted: (claim: Claim) => void
  #id: HolderId
  #cancel: (() => void) | null = null

  constructor(
    options: EngineOptions,
    tell: { emit: (change: Change) => void; deposed: () => void; wake: () => void; adopted: (claim: Claim) => void },
  ) {
    this.#options = options
    this.#emit = tell.emit
    this.#deposed = tell.deposed
    this.#look = tell.wake
    this.#adopted = tell.adopted
    this.#id = this.#newId()
  }

  get id(): HolderId {
    return this.#id
  }

  async start(): Promise<void> {
    if (this.#options.holder.kind === "server") await this.#options.store.extendWorkerLeases()
    await this.#register()
    await this.reap()
    if (this.#options.store.leases) this.#renewLater()
  }

  async stop(): Promise<void> {
    this.#cancel?.()
    this.#cancel = null
    const { store, clock, log } = this.#options
    const gone = store.deregisterHolder(this.#id).catch((error: unknown) => {
      log.error({ error: String(error) }, "could not say goodbye to the store; others find out by themselves")
    })
    await finishesWithin(clock, GOODBYE_MS, gone)
  }

  /**
   * Ends the attempts of dead holders; each is tried again from `lost_retries`. A full page is settled first, then the next is
   * asked for.
   */
  async reap(): Promise<void> {
    const { store, clock, random, holder } = this.#options
    const lost = await store.reapHolders(PAGE, { workers: holder.kind === "server" })
    const remote: Fence[] = []
    for (const attempt of lost) {
      if (attempt.kind !== "job") await store.compiled(attempt.versionId)
      const { node } = nodeOf(store, attempt)
      if (this.#options.executors.get(node.executor)?.remote === true) {
        remote.push({ row: attempt.row, attemptId: attempt.attemptId })
        continue
      }
      const startedAt = attempt.startedAt === null ? null : Date.parse(attempt.startedAt)
      const error = "lost: the process that ran it died"
      const result = { state: "lost", startedAt, finishedAt: clock.now(), error } as const
      const cancelling = attempt.cancelling !== null
      this.#emit(decide({ ...fenceOf(attempt), ...retriesUsed(attempt), cancelling }, node, result, random.next()))
    }
    if (remote.length > 0) for (const claim of await store.adopt(this.#id, remote)) this.#adopted(claim)
    if (lost.length === PAGE) clock.after(NEXT_PAGE_MS, () => void this.reapSafely())
  }

  /** Looks for the dead now, and again if that fails. */
  async reapSafely(): Promise<void> {
    await this.reap().catch((error: unknown) => {
      this.#options.log.warn({ error: String(error) }, "could not look for dead holders; trying again")
      this.#options.clock.after(RENEW_MS, () => void this.reapSafely())
    })
  }

  #newId(): HolderId {
    return newHolderId(this.#options.clock.now(), this.#options.random.hex128())
  }

  async #register(): Promise<void> {
    const { store, holder, privateRun } = this.#options
    await store.registerHolder({ id: this.#id, ...holder, leaseMs: LEASE_MS, runId: privateRun })
  }

  #renewLater(): void {
    this.#cancel = this.#options.clock.after(RENEW_MS, () => void this.#renew())
  }

  async #renew(): Promise<void> {
    const { store, log } = this.#options
    try {
      if (!(await store.renewLease(this.#id, LEASE_MS))) {
        log.warn({ holder: this.#id }, "the lease was lost; starting under a new id")
        this.#deposed()
        this.#id = this.#newId()
        await this.#register()
      }
      await this.reap()
    } catch (error) {
      log.warn({ error: String(error) }, "could not renew the lease; trying again")
    }
    if (this.#cancel === null) return
    this.#look()
    this.#renewLater()
  }
}
