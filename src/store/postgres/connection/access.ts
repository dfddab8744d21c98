// How the facets of the store reach the database.

import type { Instants } from "./store-clock.ts"
import type { Runner } from "./session.ts"
import type { Workflows } from "../admin/workflows.ts"

export interface Access {
  read<T>(work: (session: Runner) => Promise<T>): Promise<T>
  /** One transaction. */
  write<T>(work: (tx: Runner) => Promise<T>): Promise<T>
  /** One transaction that may give others something to do: wakes them. */
  tell<T>(work: (tx: Runner) => Promise<T>): Promise<T>
  instants: Instants
  workflows: Workflows
}
