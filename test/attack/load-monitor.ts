// A thread that computes for a moment again and again. When it is stopped, it reports how much longer that took than on a machine that does
// nothing else: 1 or more.

import { parentPort } from "node:worker_threads"

const SPIN_US = 15_000
const PAUSE_MS = 100

let stopped = false
parentPort!.on("message", () => (stopped = true))
parentPort!.postMessage("ready")

let [wallMs, cpuMs] = [0, 0]
do {
  const begun = { wall: performance.now(), cpu: process.threadCpuUsage() }
  let spentUs = 0
  while (spentUs < SPIN_US) {
    const { user, system } = process.threadCpuUsage(begun.cpu)
    spentUs = user + system
  }
  wallMs += performance.now() - begun.wall
  cpuMs += spentUs / 1000
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
} while (!stopped)
parentPort!.postMessage(Math.max(1, wallMs / cpuMs))
