// A thread that watches the event loop of its process for a lease holder. The thread asks the main thread for a response; while none
// comes, it acts in place of the main thread, in the way of its store.

import { writeSync } from "node:fs"
import { parentPort, Worker } from "node:worker_threads"
import { StallCounter, stallMessage } from "../../core/rules/stall-counter.ts"
import { stallCheckMs } from "../../core/settings/leases.ts"
import type { GuardedLease } from "../contract/store.ts"

/** What the thread does with the lease while the event loop of the main thread is silent. A rejection: it is tried at the next check. */
export interface LeaseGuardActions {
  /** Called while the event loop is blocked, for less than the stall limit. */
  blocked(): Promise<void>
  /** Called when the event loop is blocked for longer. Returns whether the holder was evicted. */
  stalled(): Promise<boolean>
}

type Message = "alive?" | "evicted"

/** Starts the thread. Returns a function that ends it. */
export const startLeaseGuard = (module: URL, data: object, lease: GuardedLease): (() => void) => {
  const thread = new Worker(module, { workerData: data, resourceLimits: { maxOldGenerationSizeMb: 64 } })
  thread.on("message", (message: Message) => {
    if (message === "alive?") return thread.postMessage("alive")
    thread.removeAllListeners("message")
    lease.onEvicted()
  })
  // Without the thread, the lease is renewed as long as the event loop runs.
  thread.on("error", lease.onError)
  thread.unref()
  return () => {
    thread.removeAllListeners()
    thread.on("error", () => {})
    void thread.terminate()
  }
}

/** Watches the main thread. Called in the thread. */
export const watchMainThread = (
  { leaseMs, stallMs }: Pick<GuardedLease, "leaseMs" | "stallMs">,
  { blocked, stalled }: LeaseGuardActions,
): void => {
  const checkMs = stallCheckMs(leaseMs, stallMs)
  const counter = new StallCounter({ checkMs, stallMs })
  let reported = false
  let evicted = false
  parentPort!.on("message", () => {
    counter.alive()
    reported = false
  })
  const check = async (): Promise<void> => {
    const state = counter.check()
    if (state === "stalled" && !reported) {
      reported = true
      // The main thread, which would write for `process.stderr` and the log of the program, is blocked.
      writeSync(2, `ork: error: ${stallMessage(stallMs)}\n`)
    }
    try {
      if (state === "blocked") await blocked()
      if (state === "stalled" && !evicted) evicted = await stalled()
    } catch {
      // The next check tries again.
    }
    send(evicted ? "evicted" : "alive?")
    setTimeout(() => void check(), checkMs)
  }
  void check()
}

const send = (message: Message): void => parentPort!.postMessage(message)
