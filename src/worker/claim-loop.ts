// Claims tasks for the free slots of a worker by long polls, and passes on stop requests, lost attempts and closed runs that come
// with the responses. While results are reported, the reports claim: one request at a time may do so, because the server releases what
// a poll does not list.

import type { Registration } from "./connection/registration.ts"
import { isEvicted } from "./connection/server-error.ts"
import { ClientError } from "../protocol/client/errors.ts"
import type { Reporter } from "./connection/reporter.ts"
import type { ServerClient } from "./connection/server-client.ts"
import { sleep } from "../sleep.ts"
import type { TaskFolders } from "./folders/task-folders.ts"
import { AssignedTask, type WireAssignment } from "./tasks/assigned-task.ts"
import type { TaskTable } from "./tasks/task-table.ts"
import type { Clock } from "../core/model/ports.ts"
import type { Logger } from "../engine/ports.ts"
import type { claimReply } from "../protocol/api/workers.ts"
import type { z } from "zod"

type Claimed = z.output<typeof claimReply>

export interface ClaimLoopOptions {
  registration: Registration
  client: ServerClient
  tasks: TaskTable
  folders: TaskFolders
  clock: Clock
  log: Logger
  /** Aborts when nothing more may be claimed. */
  signal: AbortSignal
  onAssigned(task: AssignedTask): void
  /** Called if the server does not know the registration any more. */
  onEvicted(): void
}

const POLL_MS = 20_000
/** Longer than the server waits. */
const POLL_TIMEOUT_MS = POLL_MS + 10_000
/** Delay before a poll without free slots: a slot may become free soon. */
const FULL_DELAY_MS = 200
/** Interval at which polls list the worker's attempts and runs. */
const INVENTORY_MS = 3000
const MAX_BACKOFF = 6

/** Response of a poll that was cut short. */
const NO_RESPONSE: Claimed = { assignments: [], stop: [], lost: [], closed: [] }

export class ClaimLoop {
  readonly #options: ClaimLoopOptions
  #polling = false
  #failures = 0
  #listedAt = Number.NEGATIVE_INFINITY

  constructor(options: ClaimLoopOptions) {
    this.#options = options
  }

  /** Returns how many tasks a report may claim: none while a poll does, or when a poll should list the attempts. */
  claimable(): number {
    const { tasks, signal } = this.#options
    return this.#polling || signal.aborted || this.#isInventoryDue() ? 0 : tasks.freeSlots
  }

  assign(assignments: readonly WireAssignment[]): void {
    const { tasks, onAssigned } = this.#options
    for (const wire of assignments) {
      if (tasks.has(wire.attempt_id)) continue
      const task = new AssignedTask(wire)
      tasks.add(task)
      onAssigned(task)
    }
  }

  /** Claims tasks until the signal aborts or the worker is evicted. */
  async run(reporter: Pick<Reporter, "busy" | "claiming" | "delivered">): Promise<void> {
    const { client, clock, log, signal, onEvicted } = this.#options
    while (!signal.aborted) {
      if (!(await this.#isPollWanted(reporter))) continue
      const begun = clock.monotonic()
      try {
        const response = await this.#poll()
        this.#failures = 0
        this.#apply(response)
        // A server that is about to stop responds immediately: without a delay, polls would follow each other at once.
        if (response !== NO_RESPONSE && isEmpty(response) && clock.monotonic() - begun < FULL_DELAY_MS)
          await client.backOff(0, signal)
      } catch (error) {
        if (signal.aborted || !(error instanceof ClientError)) return
        if (isEvicted(error)) return onEvicted()
        if (this.#failures === 0) log.warn({ error: error.message }, "failed to claim tasks; trying again")
        await client.backOff(Math.min(this.#failures, MAX_BACKOFF), signal)
        this.#failures += 1
      }
    }
  }

  /** Waits a little while no slot is free, and while reports claim. Returns whether there is a reason to poll then. */
  async #isPollWanted(reporter: Pick<Reporter, "busy" | "claiming" | "delivered">): Promise<boolean> {
    const { tasks, clock, signal } = this.#options
    if (tasks.freeSlots === 0) {
      const change = tasks.nextChange
      await sleep(clock, FULL_DELAY_MS, AbortSignal.any([signal, change]))
      if (!change.aborted) return !signal.aborted && !reporter.claiming
    }
    // A task that has just ended is reported within this tick.
    await new Promise<void>((resolve) => setImmediate(resolve))
    if (reporter.claiming || (reporter.busy && !this.#isInventoryDue())) {
      await deliveredOrAborted(reporter, signal)
      return false
    }
    return !signal.aborted
  }

  #isInventoryDue(): boolean {
    return this.#failures > 0 || this.#options.clock.monotonic() - this.#listedAt >= INVENTORY_MS
  }

  /** Sends one poll. Without free slots, it ends when a slot becomes free; a poll with the inventory then does not wait. */
  async #poll(): Promise<Claimed> {
    const { registration, client, tasks, folders, clock, signal } = this.#options
    const free = tasks.freeSlots
    const listsInventory = this.#isInventoryDue()
    const begun = clock.monotonic()
    const inventory = listsInventory ? { known: tasks.ids, runs: folders.runsToCheck(clock.now()) } : {}
    const slotFreed = free === 0 && !listsInventory ? tasks.nextChange : null
    this.#polling = true
    try {
      const response = await client.json<Claimed>({
        path: `/workers/${registration.id}/claim`,
        key: registration.token,
        body: { free, wait_ms: free === 0 && listsInventory ? 0 : POLL_MS, stopping: tasks.stoppingIds, ...inventory },
        signal: slotFreed === null ? signal : AbortSignal.any([signal, slotFreed]),
        timeoutMs: POLL_TIMEOUT_MS,
      })
      if (listsInventory) this.#listedAt = begun
      return response
    } catch (error) {
      if (slotFreed?.aborted === true && !signal.aborted) return NO_RESPONSE
      throw error
    } finally {
      this.#polling = false
    }
  }

  #apply({ assignments, stop, lost, closed, gone = [] }: Claimed): void {
    const { tasks, folders, clock } = this.#options
    this.assign(assignments)
    tasks.requestStops(stop)
    tasks.abandon(lost)
    folders.runsEnded(closed, gone, clock.now())
  }
}

const deliveredOrAborted = async (reporter: Pick<Reporter, "delivered">, signal: AbortSignal): Promise<void> => {
  const aborted = Promise.withResolvers<void>()
  const onAbort = (): void => aborted.resolve()
  signal.addEventListener("abort", onAbort)
  await Promise.race([reporter.delivered(), aborted.promise])
  signal.removeEventListener("abort", onAbort)
}

const isEmpty = ({ assignments, stop, lost, closed }: Claimed): boolean =>
  assignments.length + stop.length + lost.length + closed.length === 0
