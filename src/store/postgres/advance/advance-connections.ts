// The connections that run `advance`: as many as calls may run at the same time. They meet in the database like the engines of two
// servers, and share the caches of the store.

import type { AdvanceResult, Batch } from "../../contract/store.ts"
import { INDEXED_PLANS, type Target } from "../connection/connection.ts"
import { ConnectionPool } from "../connection/connection-pool.ts"
import { AdvanceConnection, type AdvanceParts } from "./advance-connection.ts"

/** Two connections keep Postgres busy while Node reads replies. A batch is worth a commit of its own from `minBatch` changes on. */
export const ADVANCE_CONCURRENCY = { maxConcurrent: 2, minBatch: 64 } as const

export class AdvanceConnections {
  readonly #pools: ConnectionPool[]
  readonly #connections: AdvanceConnection[]

  constructor(target: Target, parts: AdvanceParts) {
    this.#pools = Array.from(
      { length: ADVANCE_CONCURRENCY.maxConcurrent },
      () => new ConnectionPool(target, 1, { application: "ork advance", settings: INDEXED_PLANS }),
    )
    this.#connections = this.#pools.map((pool) => new AdvanceConnection(pool, parts))
  }

  async advance(batch: Batch): Promise<AdvanceResult> {
    const connection = this.#connections.find(({ busy }) => !busy) ?? this.#connections[0]!
    const advanced = await connection.advance(batch)
    // So many attempts may end together that the next turns are concurrent.
    if (advanced.claims.length >= ADVANCE_CONCURRENCY.minBatch) for (const each of this.#connections) each.warmUp(batch)
    return advanced
  }

  /** Reports runs that overrides closed, with the result of the next `advance`. */
  reportClosed(runs: AdvanceResult["closed"]): void {
    this.#connections[0]!.reportClosed(runs)
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close()))
  }
}
