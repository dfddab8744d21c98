// A thread that requests /health of the attacked server and of an idle one again and again, and reads the memory of the attacked one.
// When it is stopped, it reports the longest response times and the largest size.

import { readFileSync } from "node:fs"
import { Agent, get } from "node:http"
import { parentPort, workerData } from "node:worker_threads"

export interface Monitored {
  /** Addresses of /health. */
  target: string
  idle: string
  /** Process that serves the target. */
  pid: number
}

export interface Seen {
  targetMs: number
  idleMs: number
  peakKb: number
}

const { target, idle, pid } = workerData as Monitored
const EVERY_MS = 3

const agent = new Agent({ keepAlive: true })
const ask = (url: string): Promise<void> =>
  new Promise((resolve) => {
    get(url, { agent }, (response) => response.resume().on("end", resolve)).on("error", () => resolve())
  })

const residentKb = (): number => {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)
  } catch {
    return 0
  }
}

let stopped = false
parentPort!.on("message", () => (stopped = true))

const longest = async (url: string): Promise<number> => {
  let most = 0
  while (!stopped) {
    const begun = performance.now()
    await ask(url)
    most = Math.max(most, performance.now() - begun)
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
  }
  return most
}

const peak = async (): Promise<number> => {
  let most = 0
  while (!stopped) {
    most = Math.max(most, residentKb())
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
  }
  return most
}

await Promise.all([ask(target), ask(idle)])
parentPort!.postMessage("ready")
const [targetMs, idleMs, peakKb] = await Promise.all([longest(target), longest(idle), peak()])
parentPort!.postMessage({ targetMs, idleMs, peakKb } satisfies Seen)
agent.destroy()
