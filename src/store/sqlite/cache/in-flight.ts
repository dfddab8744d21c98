// Task rows in flight, as this store last wrote them, by attempt id: a start or a finish needs no read first. Other processes
// write to the file too, so the statements that rely on this cache check what may have changed in their WHERE; when they match no
// row, the caller reads the row.

import { BoundedMap } from "../../../core/values/bounded-map.ts"
import type { LoadedRow } from "./load-rows.ts"

const MAX_CACHED = 10_000

export class InFlightRows {
  readonly #rows = new BoundedMap<string, LoadedRow>(MAX_CACHED)

  get(attemptId: string): LoadedRow | undefined {
    return this.#rows.get(attemptId)
  }

  /** Caches the row, or drops it once it is no longer in flight. */
  update(attemptId: string, row: LoadedRow): void {
    const isInFlight = (row.status === "dispatched" || row.status === "running") && !row.isWaiting
    if (isInFlight) this.#rows.set(attemptId, row)
    else this.#rows.delete(attemptId)
  }

  clear(): void {
    this.#rows.clear()
  }
}
