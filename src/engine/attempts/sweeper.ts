// Removes work in clusters whose attempt has ended: what a server started that died, or whose attempt could not be adopted.

import { messageOf } from "../../core/values/error-message.ts"
import { type AttemptId, parseRunId, rowOf } from "../../core/model/ids.ts"
import type { LeftoverWork } from "../../executors/executor.ts"
import type { EngineOptions } from "../ports.ts"

const INTERVAL_MS = 60_000

export class Sweeper {
  readonly #options: Pick<EngineOptions, "store" | "executors" | "clock" | "log">
  #cancel: (() => void) | null = null

  constructor(options: Pick<EngineOptions, "store" | "executors" | "clock" | "log">) {
    this.#options = options
  }

  start(): void {
    const { executors } = this.#options
    if (![...executors.values()].some(({ sweep }) => sweep !== undefined)) return
    this.#cancel = this.#options.clock.after(INTERVAL_MS, () => void this.#sweep())
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = null
  }

  async #sweep(): Promise<void> {
    const { executors, log } = this.#options
    for (const executor of executors.values()) {
      await executor
        .sweep?.(async (work) => {
          const ended = await this.endedOf(work)
          for (const attemptId of ended)
            log.warn({ executor: executor.name, attemptId }, "removing work whose attempt has ended")
          return ended
        })
        .catch((error: unknown) => log.warn({ executor: executor.name, error: messageOf(error) }, "failed to remove old work"))
    }
    if (this.#cancel !== null) this.start()
  }

  /** Returns the ids of attempts that have ended. Those of unknown runs may belong to another installation. */
  async endedOf(work: readonly LeftoverWork[]): Promise<Set<string>> {
    const { store } = this.#options
    const known: LeftoverWork[] = []
    for (const one of work) {
      const runId = parseRunId(one.runId)
      if (runId !== null && (await store.getRun(runId)) !== null) known.push(one)
    }
    const fences = known.map(({ taskId, attemptId }) => ({ row: rowOf(taskId), attemptId: attemptId as AttemptId }))
    const inFlight = new Set<string>((await store.readClaims(fences)).map(({ attemptId }) => attemptId))
    return new Set(known.flatMap(({ attemptId }) => (inFlight.has(attemptId) ? [] : [attemptId])))
  }
}
