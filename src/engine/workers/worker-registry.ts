// The workers that are registered with the store. Keeps what their requests need in a cache, and a timer per worker that reaps it when
// it has not renewed its lease.

import { newWorkerSecrets } from "./credentials.ts"
import type { EngineOptions } from "../ports.ts"
import { type HolderId, newHolderId } from "../../core/model/ids.ts"
import { lanesOf, type WorkerCapabilities } from "../../core/routing/capabilities.ts"
import * as wire from "../../protocol/api/workers.ts"
import { describeAction } from "../../store/contract/audit-scope.ts"
import type { NewLeaseHolder } from "../../store/contract/store.ts"
import { Conflict } from "../../store/contract/errors.ts"
import type { z } from "zod"
import { BoundedMap } from "../../core/values/bounded-map.ts"

/** Delay of a reap after the end of a lease. */
const SLACK_MS = 50
const MAX_CACHED = 1000
const HEARTBEATS_PER_LEASE = 5

export interface RegisteredWorker {
  id: HolderId
  name: string
  lanes: string[]
  /** The stored part of the worker's credentials. */
  stored: string
}

interface RegistryOptions extends Pick<EngineOptions, "store" | "clock" | "random" | "log"> {
  leaseMs: number
  /** Called when the lease of a worker has expired. */
  reap(): void
}

export class WorkerRegistry {
  readonly #options: RegistryOptions
  readonly #cache = new BoundedMap<HolderId, RegisteredWorker>(MAX_CACHED)
  readonly #cancelExpiry = new Map<HolderId, () => void>()

  constructor(options: RegistryOptions) {
    this.#options = options
  }

  /** Watches the leases of workers that registered before this server started. */
  async start(): Promise<void> {
    for (const { id, kind, dead } of await this.#options.store.listHolders()) {
      if (kind === "worker" && !dead) this.#watchLease(id)
    }
  }

  stop(): void {
    for (const cancel of this.#cancelExpiry.values()) cancel()
    this.#cancelExpiry.clear()
  }

  async register(
    body: z.output<typeof wire.newWorker>,
    key: NewLeaseHolder["key"],
  ): Promise<z.output<typeof wire.registeredWorker>> {
    const { store, clock, random, log, leaseMs } = this.#options
    const { name, queues, labels, handlers, functions, functions_only: functionsOnly, capacity, version = "" } = body
    const id = newHolderId(clock.now(), random.hex128())
    describeAction({ target: id })
    const { token, stored } = newWorkerSecrets(id, random)
    const capabilities: WorkerCapabilities = {
      queues,
      labels: [...new Set(labels)],
      handlers,
      functions,
      ...(functionsOnly && { functionsOnly }),
      capacity,
      version,
    }
    const holder = { id, kind: "worker", name, process: "", runId: null, leaseMs } as const
    await store.registerHolder({ ...holder, capabilities, tokenHash: stored, key: key ?? null })
    this.#watchLease(id)
    log.info({ worker: name, id, queues, labels, capacity }, "a worker registered")
    const heartbeatMs = Math.ceil(leaseMs / HEARTBEATS_PER_LEASE)
    return { id, token, lease_ms: leaseMs, heartbeat_ms: heartbeatMs, protocol: wire.PROTOCOL }
  }

  /** Extends the worker's lease. Throws when the worker was evicted. */
  async renew(id: HolderId): Promise<void> {
    const { store, leaseMs } = this.#options
    if (!(await store.renewLease(id, leaseMs))) throw evictedError(id)
    this.#watchLease(id)
  }

  /** Returns a worker. Throws when it was evicted. */
  async get(id: HolderId): Promise<RegisteredWorker> {
    const cached = this.#cache.get(id)
    if (cached !== undefined) return cached
    const { store } = this.#options
    const stored = await store.workerToken(id)
    const row = stored === null ? undefined : (await store.listHolders()).find((holder) => holder.id === id)
    if (stored === null || row === undefined || row.capabilities === null) throw evictedError(id)
    const worker = { id, name: row.name, lanes: lanesOf(row.capabilities), stored }
    this.#cache.set(id, worker)
    return worker
  }

  /** Reads from the store whether a worker was evicted. */
  async isEvicted(id: HolderId): Promise<boolean> {
    return (await this.#options.store.workerToken(id)) === null
  }

  async remove(id: HolderId): Promise<void> {
    const { store, log } = this.#options
    this.#cancelExpiry.get(id)?.()
    this.#cancelExpiry.delete(id)
    this.#cache.delete(id)
    await store.deregisterHolder(id)
    log.info({ id }, "a worker left")
  }

  #watchLease(id: HolderId): void {
    const { clock, leaseMs, reap } = this.#options
    this.#cancelExpiry.get(id)?.()
    const cancel = clock.after(leaseMs + SLACK_MS, () => {
      this.#cancelExpiry.delete(id)
      this.#cache.delete(id)
      reap()
    })
    this.#cancelExpiry.set(id, cancel)
  }
}

export const evictedError = (id: HolderId): Conflict =>
  new Conflict(`the worker ${id} was given up on, or has left: register again`)
