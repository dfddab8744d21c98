// Renews the worker's lease in a worker thread, so that the lease is kept while the main thread is busy, up to the stall limit.

import { writeSync } from "node:fs"
import { parentPort, workerData } from "node:worker_threads"
import { StallCounter, stallMessage } from "../../core/rules/stall-counter.ts"
import type { HeartbeatData, ThreadMessage } from "./heartbeat.ts"
import { isEvicted } from "./server-error.ts"
import { errorOfResponse } from "../../protocol/client/errors.ts"

const { servers, id, token, everyMs, stallMs } = workerData as HeartbeatData
const counter = new StallCounter({ checkMs: everyMs, stallMs })
let current = 0
let stalled = false

const send = (message: ThreadMessage): void => parentPort?.postMessage(message)

parentPort?.on("message", () => counter.alive())

const checkMainThread = (): void => {
  const wasStalled = stalled
  stalled = counter.check() === "stalled"
  // The main thread, which would write for `process.stderr` and the log, is blocked.
  if (stalled && !wasStalled) writeSync(2, `ork worker: error: ${stallMessage(stallMs)}\n`)
  send("alive?")
}

/** Returns false if another server should be asked. */
const renewAt = async (server: string): Promise<boolean> => {
  try {
    const response = await fetch(`${server}/api/v1/workers/${id}/heartbeat`, {
      method: "POST",
      headers: { "x-api-key": token, "content-type": "application/json" },
      body: "{}",
      redirect: "manual",
      signal: AbortSignal.timeout(everyMs * 2),
    })
    if (!response.ok) {
      const evicted = isEvicted(await errorOfResponse(response, server))
      if (evicted) send({ evicted })
      return evicted
    }
    const { stop } = (await response.json()) as { stop: { attempt_id: string; reason: "cancel" | "timeout" }[] }
    if (stop.length > 0) send({ stop })
    return true
  } catch {
    return false
  }
}

/**
 * Asks the server that answered last. Asks the next one as well when a server fails or does not answer soon: the lease would expire while
 * servers that hang are asked one after another.
 */
const renew = (): Promise<void> =>
  new Promise((resolve) => {
    const first = current
    let asked = 0
    let pending = 0
    let renewed = false
    const askNext = (): void => {
      if (renewed || asked === servers.length) return
      const index = (first + asked++) % servers.length
      const timer = setTimeout(askNext, everyMs / 4)
      pending += 1
      void renewAt(servers[index]!).then((accepted) => {
        clearTimeout(timer)
        pending -= 1
        if (accepted && !renewed) current = index
        renewed ||= accepted
        if (!renewed) askNext()
        if (renewed || pending === 0) resolve()
      })
    }
    askNext()
  })

const loop = async (): Promise<void> => {
  const begun = performance.now()
  checkMainThread()
  if (!stalled) await renew()
  setTimeout(() => void loop(), Math.max(50, everyMs - (performance.now() - begun)))
}

setTimeout(() => void loop(), everyMs)
