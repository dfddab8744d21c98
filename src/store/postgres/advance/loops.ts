// As many loops as turns may be under way at once, each with a connection of its own. They meet in the database as those of two
// servers would; what they remember of attempts and ends they share.

import type { Advanced, Batch } from "../../contract/store.ts"
import { Loop, type LoopDeps } from "./advance.ts"
import type { Target } from "../connection/connection.ts"
import { ConnectionPool } from "../connection/connection-pool.ts"

/** Two keep Postgres busy while answers are read; a commit of its own is worth it from so many changes on. */
export const ADVANCE_CONCURRENCY = { maxConcurrent: 2, minBatch: 64 } as const

export class Loops {
  readonly #sessions: ConnectionPool[]
  readonly #loops: Loop[]

  constructor(target: Target, deps: Omit<LoopDeps, "sessions">) {
    this.#sessions = Array.from(
      { length: ADVANCE_CONCURRENCY.maxConcurrent },
      () => new ConnectionPool(target, "ork advance", 1),
    )
    this.#loops = this.#sessions.map((sessions) => new Loop({ ...deps, sessions }))
  }

  async advance(batch: Batch): Promise<Advanced> {
    const loop = this.#loops.find(({ busy }) => !busy) ?? this.#loops[0]!
    const advanced = await loop.advance(batch)
    for (const other of this.#loops) if (other !== loop) other.stale()
    return advanced
  }

  /** Runs that were ended beside the loops: told with the next turn. */
  closed(runs: Advanced["closed"]): void {
    this.#loops[0]!.closed(runs)
  }

  /** Something was committed beside the loops. */
  stale(): void {
    for (const loop of this.#loops) loop.stale()
  }

  async close(): Promise<void> {
    await Promise.all(this.#sessions.map((sessions) => sessions.close()))
  }
}
