// The context that `Jobs` and `Runs` share: the engine and the parts of the program, and the results that callers wait for.

import type { Engine } from "../../engine/engine.ts"
import type { CreatedWork } from "../../store/contract/store.ts"
import type { OrkParts } from "./ork-parts.ts"
import type { Results } from "./results.ts"

export interface WorkContext {
  parts: OrkParts
  /** null: this process only creates work. */
  engine: Engine | null
  results: Results
  /** Throws when the engine was stopped, or excludes operations during a transaction. */
  checkOpen(): void
  /** Returns whether this process runs work of the definition with this name. */
  runsDefinition(name: string): boolean
  /** Runs a call that creates work, and a turn of the engine of this process, if there is one, that claims it. */
  createThenClaim<T>(work: CreatedWork, call: () => Promise<T>): Promise<T>
}
