// Starts and stops the thread that renews the worker's lease.

import { Worker } from "node:worker_threads"

export interface HeartbeatData {
  servers: readonly string[]
  id: string
  token: string
  everyMs: number
  /** Time for which the event loop may be blocked. From then on the lease is not renewed. */
  stallMs: number
}

/** "alive?": asks the main thread for a response. */
export type ThreadMessage = HeartbeatMessage | "alive?"
export type HeartbeatMessage = { evicted: true } | { stop: { attempt_id: string; reason: "cancel" | "timeout" }[] }

/** TypeScript in a checkout, JavaScript in the built package. */
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./heartbeat-thread.ts" : "./heartbeat-thread.js", import.meta.url)

/** Returns a function that stops the thread. */
export const startHeartbeat = (data: HeartbeatData, onMessage: (message: HeartbeatMessage) => void): (() => void) => {
  const thread = new Worker(THREAD, { workerData: data, env: {}, resourceLimits: { maxOldGenerationSizeMb: 32 } })
  thread.on("message", (message: ThreadMessage) => {
    if (message === "alive?") thread.postMessage("alive")
    else onMessage(message)
  })
  // Without a heartbeat the lease expires, which is the same as an eviction.
  thread.on("error", () => onMessage({ evicted: true }))
  thread.unref()
  return () => {
    thread.removeAllListeners()
    thread.on("error", () => {})
    void thread.terminate()
  }
}
