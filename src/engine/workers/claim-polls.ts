// The open claims of workers: each is answered when there is something for it, or after its time. One pass at a time goes through
// them, those that wait longest first; what had nothing for one has nothing for others with the same lanes.

import type { RegisteredWorker } from "./worker-service.ts"
import type { EngineOptions } from "../ports.ts"
import type { HolderId } from "../../core/model/ids.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { z } from "zod"

export type Claimed = z.output<typeof wire.claimed>

export const NOTHING: Claimed = { assignments: [], stop: [], lost: [], over: [] }

export interface ClaimPoll {
  worker: RegisteredWorker
  free: number
  stopping: ReadonlySet<string>
  /** An answer is being made for it. */
  busy: boolean
  /** False: nobody waits for the answer any more. */
  settle(answer: Claimed): boolean
  refuse(error: Error): void
}

/** `empty`: there is nothing in its lanes, for anybody. */
export type Serve = (poll: ClaimPoll) => Promise<{ empty: boolean; more: boolean; nextDueMs: number | null }>

export class ClaimPolls {
  readonly #parts: Pick<EngineOptions, "clock" | "log">
  readonly #serve: Serve
  readonly #open = new Map<HolderId, ClaimPoll>()
  #passing = false
  #again = false
  #all = false
  #closed = false
  #cancelDue: (() => void) | null = null

  constructor(parts: Pick<EngineOptions, "clock" | "log">, serve: Serve) {
    this.#parts = parts
    this.#serve = serve
  }

  add(asked: Pick<ClaimPoll, "worker" | "free" | "stopping">, waitMs: number, signal: AbortSignal): Promise<Claimed> {
    const { id } = asked.worker
    // Its worker has given that one up.
    this.#open.get(id)?.settle(NOTHING)
    return new Promise((resolve, reject) => {
      if (this.#closed) return resolve(NOTHING)
      let done = false
      const poll: ClaimPoll = {
        ...asked,
        busy: false,
        settle: (answer) => {
          if (done) return false
          done = true
          cancel()
          signal.removeEventListener("abort", leave)
          if (this.#open.get(id) === poll) this.#open.delete(id)
          resolve(answer)
          return true
        },
        refuse: (error) => {
          reject(error)
          poll.settle(NOTHING)
        },
      }
      const leave = (): void => void poll.settle(NOTHING)
      const cancel = this.#parts.clock.after(waitMs, () => {
        if (!poll.busy) poll.settle(NOTHING)
      })
      signal.addEventListener("abort", leave, { once: true })
      this.#open.set(id, poll)
      this.wake(false)
    })
  }

  wake(all: boolean): void {
    this.#all ||= all
    this.#again = true
    if (!this.#passing && this.#open.size > 0) void this.#pass()
  }

  close(): void {
    this.#closed = true
    this.#cancelDue?.()
    for (const poll of this.#open.values()) poll.settle(NOTHING)
  }

  async #pass(): Promise<void> {
    this.#passing = true
    try {
      while (this.#again) {
        this.#again = false
        await this.#once()
      }
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "could not look for work for workers; trying again at the next occasion")
    } finally {
      this.#passing = false
    }
  }

  async #once(): Promise<void> {
    const all = this.#all
    this.#all = false
    const empty = new Set<string>()
    let due = Number.POSITIVE_INFINITY
    const waiting = [...this.#open.values()]
    for (const poll of waiting) {
      const lanes = poll.worker.lanes.join(" ")
      if (poll.busy || this.#open.get(poll.worker.id) !== poll) continue
      if (!all && (poll.free === 0 || empty.has(lanes))) continue
      const { empty: nothing, more, nextDueMs } = await this.#serve(poll)
      if (nothing) empty.add(lanes)
      if (more) this.#again = true
      due = Math.min(due, nextDueMs ?? due)
    }
    this.#cancelDue?.()
    this.#cancelDue = due < Number.POSITIVE_INFINITY ? this.#parts.clock.after(due, () => this.wake(false)) : null
  }
}
