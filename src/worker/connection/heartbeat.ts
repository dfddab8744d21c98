// Starts and stops the thread that renews the worker's lease.

import { Worker } from "node:worker_threads"

export interface HeartbeatData {
  servers: readonly string[]
  id: string
  token: string
  everyMs: number
}

export type HeartbeatMessage = { gone: true } | { stop: { attempt_id: string; reason: "cancel" | "timeout" }[] }

/** The same file as TypeScript here and as JavaScript in the built package. */
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./heartbeat-thread.ts" : "./heartbeat-thread.js", import.meta.url)

/** Gives a function that ends it. */
export const startHeartbeat = (data: HeartbeatData, heard: (news: HeartbeatMessage) => void): (() => void) => {
  const thread = new Worker(THREAD, { workerData: data, env: {}, resourceLimits: { maxOldGenerationSizeMb: 32 } })
  thread.on("message", heard)
  // Without a heartbeat the lease runs out, and the worker would run what others have: as good as given up on.
  thread.on("error", () => heard({ gone: true }))
  thread.unref()
  return () => {
    thread.removeAllListeners()
    thread.on("error", () => {})
    void thread.terminate()
  }
}
