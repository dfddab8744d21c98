// The log of a view: opened at its end and polled while it may grow.

import { useEffect, useState, useSyncExternalStore } from "react"
import { downloadUrl, type LogAddress, type LogPort, logPort } from "./log-port.ts"
import { LogWindow, type Snapshot } from "./log-window.ts"

const LOOK_MS = 700
/** Delay of the last poll: the last output may arrive after the task's finish event. */
const LAST_POLL_MS = 1500

export interface Log {
  port: LogPort
  window: LogWindow
  snapshot: Snapshot
}

const newLog = (url: string, address: LogAddress): { url: string; port: LogPort; window: LogWindow } => {
  const port = logPort(address)
  return { url, port, window: new LogWindow(port) }
}

/** Reads a log. `live` is true while the attempt is unfinished. */
export const useLog = (address: LogAddress, live: boolean): Log => {
  const url = downloadUrl(address)
  const [held, setHeld] = useState(() => newLog(url, address))
  if (held.url !== url) setHeld(newLog(url, address))
  const { port, window } = held
  useEffect(() => {
    void window.openEnd()
    return () => window.close()
  }, [window])
  useEffect(() => {
    const poll = (): void => {
      if (!document.hidden) void window.poll()
    }
    if (live) {
      const timer = setInterval(poll, LOOK_MS)
      return () => clearInterval(timer)
    }
    const timers = [0, LAST_POLL_MS].map((ms) => setTimeout(poll, ms))
    return () => timers.forEach((timer) => clearTimeout(timer))
  }, [window, live])
  return { port, window, snapshot: useSyncExternalStore(window.subscribe, window.snapshot) }
}
