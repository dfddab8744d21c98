// The database of one seed: opens stores on it for the engines, and reads its tables for the checks.

import type { Clock, Random } from "../../../src/core/model/ports.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import type { LeaseHolderRow, Store } from "../../../src/store/contract/store.ts"
import type { TableReader } from "./table-reader.ts"

export interface OpenOptions {
  clock: Clock
  random: Random
  /** Decides which lease holders have crashed, for stores without leases. */
  isDead: (holder: LeaseHolderRow) => boolean
}

export interface SimDatabase {
  /** Every holder has a lease, whatever the scenario says. */
  readonly leasesOnly: boolean
  /** Claims consider the hooks that the same commit inserts when it closes a run. Postgres sends its claims before. */
  readonly claimsNewHooks: boolean
  /** The table in which transactions of durable functions write, as SQL. */
  readonly ledger: string
  /** Sees all commits up to the last `refresh`. */
  readonly tables: TableReader
  /** Opens a store with connections of its own, as a process does. */
  openStore(options: OpenOptions): Promise<ServerStore>
  /**
   * Called after each call of `store`: brings `tables` up to date. Returns a text that identifies the wake-up that the call sent to the
   * other processes; null when it sent none.
   */
  refresh(store: Store): Promise<string | null>
  close(): Promise<void>
}

/** Makes an empty database with the current schema for each seed. */
export interface SimDatabases {
  create(seed: number): Promise<SimDatabase>
  close(): Promise<void>
}
