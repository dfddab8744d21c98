// Removes work in clusters whose attempt has ended. Work counts as left over when two sweeps in a row find it without an attempt of this
// process that follows it: work that has just ended completes, or is removed, by itself.

import { messageOf } from "../../core/values/error-message.ts"
import type { Executor, LeftoverWork } from "../executor.ts"

/** A part of a cluster that may hold leftover work, such as a namespace. */
export interface WorkSource<Work extends LeftoverWork> {
  /** Named in errors. */
  name: string
  /** Lists unfinished work that no attempt of this process follows. */
  list(): Promise<Work[]>
  remove(work: Work): Promise<void>
}

export class Leftovers {
  /** Ids of the attempts whose work the last sweep found. */
  #found = new Set<string>()

  /** Goes on after a failure, and rejects at the end. */
  async sweep<Work extends LeftoverWork>(
    sources: Iterable<WorkSource<Work>>,
    ended: Parameters<NonNullable<Executor["sweep"]>>[0],
    describeError: (error: unknown) => string = messageOf,
  ): Promise<void> {
    const before = this.#found
    this.#found = new Set()
    const failures: string[] = []
    for (const source of sources) {
      const work = await source.list().catch((error: unknown) => {
        failures.push(`${source.name}: ${describeError(error)}`)
        return []
      })
      for (const { attemptId } of work) this.#found.add(attemptId)
      const candidates = work.filter(({ attemptId }) => before.has(attemptId))
      const over = candidates.length === 0 ? new Set() : await ended(candidates)
      for (const one of candidates.filter(({ attemptId }) => over.has(attemptId))) {
        await source.remove(one).catch((error: unknown) => failures.push(`job ork-${one.attemptId}: ${describeError(error)}`))
      }
    }
    if (failures.length > 0) throw new Error(failures.join("; "))
  }
}
