// A thread that requests /health again and again, and reports the longest response time when it is stopped.

import { Agent, get } from "node:http"
import { parentPort, workerData } from "node:worker_threads"

const agent = new Agent({ keepAlive: true })
const ask = (): Promise<void> =>
  new Promise((resolve) => {
    get(workerData as string, { agent }, (response) => response.resume().on("end", resolve)).on("error", () => resolve())
  })

let stopped = false
parentPort!.on("message", () => (stopped = true))
await ask()
parentPort!.postMessage("ready")
let longest = 0
while (!stopped) {
  const begun = performance.now()
  await ask()
  longest = Math.max(longest, performance.now() - begun)
  await new Promise((resolve) => setTimeout(resolve, 2))
}
parentPort!.postMessage(longest)
agent.destroy()
