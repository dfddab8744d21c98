// Open claim requests of workers (long polls). Each is answered when there is something for it, or after its waiting time. One pass at a
// time serves them, oldest first; lanes that had nothing for one worker are skipped for others with the same lanes.

import type { RegisteredWorker } from "./worker-registry.ts"
import type { EngineOptions } from "../ports.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type * as wire from "../../protocol/api/workers.ts"
import { soonest } from "../../core/time/soonest.ts"
import type { z } from "zod"

/** Delay of the pass after one that failed. */
const RETRY_MS = 1000

export type ClaimReply = z.output<typeof wire.claimReply>

export const NOTHING: ClaimReply = { assignments: [], stop: [], lost: [], closed: [] }

export interface ClaimPoll {
  worker: RegisteredWorker
  free: number
  /** Attempts that the worker is stopping already. */
  stopping: ReadonlySet<string>
  /** A response is being prepared. */
  busy: boolean
  /** Returns false when nobody waits for the response any more. */
  respond(response: ClaimReply): boolean
  reject(error: Error): void
}

export interface Served {
  /** The lanes have no work. */
  empty: boolean
  /** There may be more work: run another pass. */
  more: boolean
  nextDueMs: number | null
}

export class ClaimPolls {
  readonly #options: Pick<EngineOptions, "clock" | "log">
  readonly #serve: (poll: ClaimPoll) => Promise<Served>
  readonly #open = new Map<HolderId, ClaimPoll>()
  #serving = false
  #passWanted = false
  /** The next pass also serves polls without free slots. */
  #serveAll = false
  #closed = false
  #cancelDue: (() => void) | null = null

  constructor(options: Pick<EngineOptions, "clock" | "log">, serve: (poll: ClaimPoll) => Promise<Served>) {
    this.#options = options
    this.#serve = serve
  }

  /** Opens a poll. A previous poll of the same worker is answered with nothing: the worker no longer waits for it. */
  add(request: Pick<ClaimPoll, "worker" | "free" | "stopping">, waitMs: number, signal: AbortSignal): Promise<ClaimReply> {
    const { id } = request.worker
    this.#open.get(id)?.respond(NOTHING)
    if (this.#closed) return Promise.resolve(NOTHING)
    return new Promise((resolve, reject) => {
      let isDone = false
      const poll: ClaimPoll = {
        ...request,
        busy: false,
        respond: (response) => {
          if (isDone) return false
          isDone = true
          cancelTimeout()
          signal.removeEventListener("abort", onAbort)
          if (this.#open.get(id) === poll) this.#open.delete(id)
          resolve(response)
          return true
        },
        reject: (error) => {
          reject(error)
          poll.respond(NOTHING)
        },
      }
      const onAbort = (): void => void poll.respond(NOTHING)
      const cancelTimeout = this.#options.clock.after(waitMs, () => {
        if (!poll.busy) poll.respond(NOTHING)
      })
      signal.addEventListener("abort", onAbort, { once: true })
      this.#open.set(id, poll)
      this.wake(false)
    })
  }

  /** Serves the polls. `all`: also those without free slots. */
  wake(all: boolean): void {
    this.#serveAll ||= all
    this.#passWanted = true
    if (!this.#serving && this.#open.size > 0) void this.#runPasses()
  }

  close(): void {
    this.#closed = true
    this.#cancelDue?.()
    for (const poll of this.#open.values()) poll.respond(NOTHING)
  }

  async #runPasses(): Promise<void> {
    this.#serving = true
    try {
      while (this.#passWanted) {
        this.#passWanted = false
        await this.#pass()
      }
    } catch (error) {
      this.#options.log.warn({ error: String(error) }, "failed to claim work for workers; trying again")
      this.#wakeAfter(RETRY_MS)
    } finally {
      this.#serving = false
    }
  }

  async #pass(): Promise<void> {
    const all = this.#serveAll
    this.#serveAll = false
    try {
      this.#wakeAfter(await this.#serveOpen(all))
    } catch (error) {
      this.#serveAll ||= all
      throw error
    }
  }

  /** Returns the milliseconds until more work is due, or null. */
  async #serveOpen(all: boolean): Promise<number | null> {
    const emptyLanes = new Set<string>()
    let dueMs: number | null = null
    const waiting = [...this.#open.values()]
    for (const poll of waiting) {
      const lanes = poll.worker.lanes.join(" ")
      if (poll.busy || this.#open.get(poll.worker.id) !== poll) continue
      if (!all && (poll.free === 0 || emptyLanes.has(lanes))) continue
      const { empty, more, nextDueMs } = await this.#serve(poll)
      if (empty) emptyLanes.add(lanes)
      if (more) this.#passWanted = true
      dueMs = soonest(dueMs, nextDueMs)
    }
    return dueMs
  }

  #wakeAfter(ms: number | null): void {
    this.#cancelDue?.()
    this.#cancelDue = ms === null || this.#closed ? null : this.#options.clock.after(ms, () => this.wake(false))
  }
}
