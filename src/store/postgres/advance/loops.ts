// The loops of a store: as many as calls of `advance` may run at the same time, each on a connection of its own. They meet in the
// database like the loops of two servers, and share the caches of the store.

import type { Advanced, Batch } from "../../contract/store.ts"
import { INDEXED_PLANS, type Target } from "../connection/connection.ts"
import { ConnectionPool } from "../connection/connection-pool.ts"
import type { StoreContext } from "../tx.ts"
import type { NotifyParams } from "./advance.ts"
import { Loop } from "./loop.ts"

/** Two loops keep Postgres busy while Node reads replies. A batch is worth a commit of its own from `minBatch` changes on. */
export const ADVANCE_CONCURRENCY = { maxConcurrent: 2, minBatch: 64 } as const

export class Loops {
  readonly #pools: ConnectionPool[]
  readonly #loops: Loop[]

  constructor(target: Target, context: StoreContext, notifyParams: NotifyParams) {
    this.#pools = Array.from(
      { length: ADVANCE_CONCURRENCY.maxConcurrent },
      () => new ConnectionPool(target, 1, { application: "ork advance", settings: INDEXED_PLANS }),
    )
    this.#loops = this.#pools.map((pool) => new Loop(pool, context, notifyParams))
  }

  advance(batch: Batch): Promise<Advanced> {
    const loop = this.#loops.find(({ busy }) => !busy) ?? this.#loops[0]!
    return loop.advance(batch)
  }

  /** Reports runs that were closed outside of the loops with the next turn. */
  reportClosed(runs: Advanced["closed"]): void {
    this.#loops[0]!.reportClosed(runs)
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close()))
  }
}
