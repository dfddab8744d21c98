// How the facets of the store reach the database.

import type { StoreClock } from "./store-clock.ts"
import type { SqlRunner } from "./connection.ts"
import type { Workflows } from "../admin/workflows.ts"

export interface Access {
  read<T>(work: (session: SqlRunner) => Promise<T>): Promise<T>
  /** One transaction. */
  write<T>(work: (tx: SqlRunner) => Promise<T>): Promise<T>
  /** One transaction that may give others something to do: wakes them. */
  writeAndNotify<T>(work: (tx: SqlRunner) => Promise<T>): Promise<T>
  clock: StoreClock
  workflows: Workflows
}
