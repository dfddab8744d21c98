// Bulk actions on selected runs, executed a few at a time.

import type { Run, RunStatus } from "../../api/types.ts"

const ENDED: ReadonlySet<RunStatus> = new Set(["success", "failed", "cancelled"])

export type BulkVerb = "cancel" | "retry"

/** Returns the selected runs to which the action applies. */
export const fitFor = (verb: BulkVerb, runs: readonly Run[]): Run[] =>
  runs.filter((run) => (verb === "cancel" ? !ENDED.has(run.status) : run.status === "failed" || run.status === "cancelled"))

export interface BulkResult {
  done: number
  failed: { id: string; error: unknown }[]
}

const AT_ONCE = 4

/** Tries every run and reports failures at the end. */
export const forAll = async (ids: readonly string[], act: (id: string) => Promise<unknown>): Promise<BulkResult> => {
  const waiting = [...ids]
  const result: BulkResult = { done: 0, failed: [] }
  const work = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        await act(id)
        result.done += 1
      } catch (error) {
        result.failed.push({ id, error })
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return result
}
