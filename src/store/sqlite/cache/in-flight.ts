// Rows that are in flight, as this store saw them last: most changes speak of one, and need not read it first. A write that relies
// on that says in its WHERE what it takes for granted, since other processes write to the file too; when it finds no such row, the
// row is read after all.

import { isJobRow } from "../../shared/job-rows.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"

const MAX_CACHED = 10_000

export class InFlightRows {
  readonly #rows = new Map<string, LoadedRow>()

  get(attemptId: string): LoadedRow | undefined {
    return this.#rows.get(attemptId)
  }

  has(attemptId: string): boolean {
    return this.#rows.has(attemptId)
  }

  /** How a row stands after something was done to it under this attempt. Whether a job was stopped is asked first: it is read. */
  keep(attemptId: string, row: LoadedRow): void {
    const live = row.status === "dispatched" || row.status === "running"
    if (live && !row.isWaiting && !isJobRow(row.runSeq)) this.#set(attemptId, row)
    else this.#rows.delete(attemptId)
  }

  #set(attemptId: string, row: LoadedRow): void {
    if (this.#rows.size >= MAX_CACHED) this.#rows.delete(this.#rows.keys().next().value!)
    this.#rows.set(attemptId, row)
  }

  clear(): void {
    this.#rows.clear()
  }
}
