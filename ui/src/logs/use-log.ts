// The log that a view shows: opened at its end, looked at again while it may grow.

import { useEffect, useState, useSyncExternalStore } from "react"
import { downloadUrl, type LogAddress, type LogPort, logPort } from "./log-port.ts"
import { LogWindow, type Snapshot } from "./log-window.ts"

const LOOK_MS = 700
/** What was written last may come after the task's end was told. */
const LAST_LOOK_MS = 1500

export interface Log {
  port: LogPort
  window: LogWindow
  snapshot: Snapshot
}

const newLog = (url: string, address: LogAddress): { url: string; port: LogPort; window: LogWindow } => {
  const port = logPort(address)
  return { url, port, window: new LogWindow(port) }
}

/** `live`: its attempt has not ended. */
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
    const look = (): void => {
      if (!document.hidden) void window.look()
    }
    if (live) {
      const timer = setInterval(look, LOOK_MS)
      return () => clearInterval(timer)
    }
    const timers = [0, LAST_LOOK_MS].map((ms) => setTimeout(look, ms))
    return () => timers.forEach((timer) => clearTimeout(timer))
  }, [window, live])
  return { port, window, snapshot: useSyncExternalStore(window.subscribe, window.snapshot) }
}
