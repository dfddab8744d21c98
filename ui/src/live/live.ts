// The live stream and its hooks. Created once, in main.tsx, for the query cache.

import type { QueryClient } from "@tanstack/react-query"
import { createContext, use, useEffect, useEffectEvent, useSyncExternalStore } from "react"
import { urlOf } from "../api/http.ts"
import type { OrkEvent } from "../api/types.ts"
import { LiveCache } from "./apply.ts"
import { type Connection, type LiveSource, LiveStream, type LiveEnvironment } from "./stream.ts"

/** A tab that is hidden for this long closes its connection. */
const DISCONNECT_MS = 20_000
/** Browsers run no animation frames in hidden tabs. */
const HIDDEN_FRAME_MS = 500

const after = (ms: number, run: () => void): (() => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

const environment: LiveEnvironment = {
  connect: (url) => new EventSource(url) as unknown as LiveSource,
  frame: (run) => {
    if (document.hidden) return after(HIDDEN_FRAME_MS, run)
    const frame = requestAnimationFrame(run)
    return () => cancelAnimationFrame(frame)
  },
  after,
}

export const LiveContext = createContext<LiveStream | null>(null)

/** Starts the stream; only for signed-in users. */
export const WatchContext = createContext<(() => () => void) | null>(null)

/**
 * Creates a stream that updates the cache. `watch` starts it and follows the visibility of the tab; it returns a function that stops
 * it.
 */
export const makeLive = (client: QueryClient): { stream: LiveStream; watch(): () => void } => {
  const stream = new LiveStream(environment, urlOf("/events"))
  const cache = new LiveCache(client, after)
  stream.onBatch((events) => cache.apply(events))
  stream.onGap(() => cache.reload())
  // Requests that failed while the server was down are sent again.
  stream.onState(() => {
    if (stream.state === "open") void client.refetchQueries({ predicate: ({ state }) => state.status === "error" })
  })
  const watch = (): (() => void) => {
    let cancelDisconnect = (): void => undefined
    const update = (): void => {
      cancelDisconnect()
      if (document.hidden) cancelDisconnect = after(DISCONNECT_MS, () => stream.disconnect())
      else stream.start()
    }
    document.addEventListener("visibilitychange", update)
    update()
    return () => {
      document.removeEventListener("visibilitychange", update)
      cancelDisconnect()
      cache.stop()
      stream.stop()
    }
  }
  return { stream, watch }
}

const useStream = (): LiveStream => {
  const stream = use(LiveContext)
  if (stream === null) throw new Error("there is no live stream above this component")
  return stream
}

export const useConnection = (): Connection => {
  const stream = useStream()
  return useSyncExternalStore(
    (listener) => stream.onState(listener),
    () => stream.state,
  )
}

/** Subscribes to batches of events while the component is mounted; `onGap` is called when events were lost and data must be reloaded. */
export const useLiveEvents = (onBatch: (events: readonly OrkEvent[]) => void, onGap?: () => void): void => {
  const stream = useStream()
  const batch = useEffectEvent(onBatch)
  const gap = useEffectEvent(() => onGap?.())
  useEffect(() => {
    const ends = [stream.onBatch((events) => batch(events)), stream.onGap(() => gap())]
    return () => ends.forEach((end) => end())
  }, [stream])
}
