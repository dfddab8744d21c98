// Loaded into a process by `--import`. Writes the longest block of the event loop to the file LOOP_WATCH four times a second: by the clock,
// and by the CPU time of its thread, which excludes the work of other processes. SIGUSR2 resets both.

import { writeFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { isMainThread } from "node:worker_threads"

const TICK_MS = 5

const file = process.env["LOOP_WATCH"]
if (isMainThread && file !== undefined) {
  const delay = monitorEventLoopDelay({ resolution: TICK_MS })
  delay.enable()
  let busy = 0
  let before = process.threadCpuUsage()
  process.on("SIGUSR2", () => {
    delay.reset()
    busy = 0
  })
  const tick = (): void => {
    const { user, system } = process.threadCpuUsage(before)
    before = process.threadCpuUsage()
    busy = Math.max(busy, (user + system) / 1000)
  }
  const write = (): void =>
    writeFileSync(file, JSON.stringify({ max_ms: Math.round(delay.max / 1e6), busy_ms: Math.round(busy) }))
  setInterval(tick, TICK_MS).unref()
  setInterval(write, 250).unref()
}
