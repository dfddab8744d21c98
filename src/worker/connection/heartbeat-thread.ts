// Renews the worker's lease in a worker thread, so that the lease is kept while the main thread is busy.

import { parentPort, workerData } from "node:worker_threads"
import type { HeartbeatData, HeartbeatMessage } from "./heartbeat.ts"
import { readServerError } from "./server-error.ts"

const { servers, id, token, everyMs } = workerData as HeartbeatData
let current = 0

const send = (message: HeartbeatMessage): void => parentPort?.postMessage(message)

/** Returns false if the next server should be tried. */
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
      const { evicted } = await readServerError(response)
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

const renew = async (): Promise<void> => {
  for (let tries = 0; tries < servers.length; tries++) {
    if (await renewAt(servers[current % servers.length]!)) return
    current += 1
  }
}

const loop = async (): Promise<void> => {
  const begun = performance.now()
  await renew()
  setTimeout(() => void loop(), Math.max(50, everyMs - (performance.now() - begun)))
}

setTimeout(() => void loop(), everyMs)
