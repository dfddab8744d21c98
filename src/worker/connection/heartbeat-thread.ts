// Renews the worker's lease from a thread of its own, so that it is kept while the main thread is busy. Runs in a worker thread.

import { parentPort, workerData } from "node:worker_threads"
import type { HeartbeatData, HeartbeatMessage } from "./heartbeat.ts"
import { readServerError } from "./server-error.ts"

const { servers, id, token, everyMs } = workerData as HeartbeatData
let at = 0

const tell = (news: HeartbeatMessage): void => parentPort?.postMessage(news)

/** False: this server was of no use. */
const beat = async (server: string): Promise<boolean> => {
  try {
    const answer = await fetch(`${server}/api/v1/workers/${id}/heartbeat`, {
      method: "POST",
      headers: { "x-api-key": token, "content-type": "application/json" },
      body: "{}",
      redirect: "manual",
      signal: AbortSignal.timeout(everyMs * 2),
    })
    if (!answer.ok) {
      const { evicted } = await readServerError(answer)
      if (evicted) tell({ gone: true })
      return evicted
    }
    const { stop } = (await answer.json()) as { stop: { attempt_id: string; reason: "cancel" | "timeout" }[] }
    if (stop.length > 0) tell({ stop })
    return true
  } catch {
    return false
  }
}

const round = async (): Promise<void> => {
  for (let tries = 0; tries < servers.length; tries++) {
    if (await beat(servers[at % servers.length]!)) return
    at += 1
  }
}

const loop = async (): Promise<void> => {
  const begun = performance.now()
  await round()
  setTimeout(() => void loop(), Math.max(50, everyMs - (performance.now() - begun)))
}

setTimeout(() => void loop(), everyMs)
