// Claims tasks for the free slots of a worker by long polls, and passes on stop requests, lost attempts and ended runs that come
// with the responses.

import type { Registration } from "./connection/registration.ts"
import type { ServerClient } from "./connection/server-client.ts"
import { ServerError } from "./connection/server-error.ts"
import { sleep } from "./connection/sleep.ts"
import type { TaskFolders } from "./folders/task-folders.ts"
import { AssignedTask } from "./tasks/assigned-task.ts"
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

/** Claims tasks until `signal` aborts or the worker is evicted. */
export const claimTasks = async (options: ClaimLoopOptions, signal: AbortSignal): Promise<void> => {
  const { client, tasks, clock, log } = options
  let failures = 0
  let listedAt = 0
  while (!signal.aborted) {
    if (tasks.freeSlots === 0) await sleep(clock, FULL_DELAY_MS, AbortSignal.any([signal, tasks.nextChange]))
    if (signal.aborted) return
    const begun = clock.monotonic()
    const listsInventory = failures > 0 || begun - listedAt >= INVENTORY_MS
    try {
      const response = await poll(options, listsInventory, signal)
      if (listsInventory) listedAt = begun
      failures = 0
      apply(options, response)
      // A server that is about to stop responds immediately: without a delay, polls would follow each other at once.
      if (response !== NO_RESPONSE && isEmpty(response) && clock.monotonic() - begun < FULL_DELAY_MS)
        await client.backOff(0, signal)
    } catch (error) {
      if (signal.aborted || !(error instanceof ServerError)) return
      if (error.evicted) return options.onEvicted()
      if (failures === 0) log.warn({ error: error.message }, "could not claim tasks; retrying")
      await client.backOff(Math.min(failures, MAX_BACKOFF), signal)
      failures += 1
    }
  }
}

/** Sends one poll. A poll without free slots ends when a slot becomes free. */
const poll = async (
  { registration, client, tasks, folders, clock }: ClaimLoopOptions,
  listsInventory: boolean,
  signal: AbortSignal,
): Promise<Claimed> => {
  const free = tasks.freeSlots
  const inventory = listsInventory ? { known: tasks.ids, runs: folders.runsToCheck(clock.now()) } : {}
  const slotFreed = free === 0 ? tasks.nextChange : null
  try {
    return await client.json<Claimed>({
      path: `/workers/${registration.id}/claim`,
      key: registration.token,
      body: { free, wait_ms: POLL_MS, stopping: tasks.stoppingIds, ...inventory },
      signal: slotFreed === null ? signal : AbortSignal.any([signal, slotFreed]),
      timeoutMs: POLL_TIMEOUT_MS,
    })
  } catch (error) {
    if (slotFreed?.aborted === true && !signal.aborted) return NO_RESPONSE
    throw error
  }
}

const apply = ({ tasks, folders, clock, onAssigned }: ClaimLoopOptions, response: Claimed): void => {
  const { assignments, stop, lost, closed, gone = [] } = response
  for (const wire of assignments) {
    if (tasks.has(wire.attempt_id)) continue
    const task = new AssignedTask(wire)
    tasks.add(task)
    onAssigned(task)
  }
  tasks.requestStops(stop)
  tasks.abandon(lost)
  folders.runsEnded(closed, gone, clock.now())
}

const isEmpty = ({ assignments, stop, lost, closed }: Claimed): boolean =>
  assignments.length + stop.length + lost.length + closed.length === 0
