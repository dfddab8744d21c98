// The page's own live stream and the hooks that use it. Made once, in main.tsx, for the page's one query cache.

import type { QueryClient } from "@tanstack/react-query"
import { createContext, use, useEffect, useEffectEvent, useSyncExternalStore } from "react"
import { urlOf } from "../api/http.ts"
import type { OrkEvent } from "../api/types.ts"
import { LiveCache } from "./apply.ts"
import { type Connection, type LiveSource, LiveStream, type LiveWorld } from "./stream.ts"

/** A page that is out of sight for this long lets its connection go. */
const REST_MS = 20_000
/** Frames are not drawn while nobody looks. */
const HIDDEN_FRAME_MS = 500

const after = (ms: number, run: () => void): (() => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

const world: LiveWorld = {
  connect: (url) => new EventSource(url) as unknown as LiveSource,
  frame: (run) => {
    if (document.hidden) return after(HIDDEN_FRAME_MS, run)
    const frame = requestAnimationFrame(run)
    return () => cancelAnimationFrame(frame)
  },
  after,
}

export const LiveContext = createContext<LiveStream | null>(null)

/** Starts the stream; only for those who are signed in. */
export const WatchContext = createContext<(() => () => void) | null>(null)

/** A stream that feeds the cache. `watch` starts it and follows whether anybody looks; what it returns ends that. */
export const makeLive = (client: QueryClient): { stream: LiveStream; watch(): () => void } => {
  const stream = new LiveStream(world, urlOf("/events"))
  const cache = new LiveCache(client, after)
  stream.onBatch((events) => cache.apply(events))
  stream.onGap(() => cache.reload())
  const watch = (): (() => void) => {
    let cancelRest = (): void => undefined
    const look = (): void => {
      cancelRest()
      if (document.hidden) cancelRest = after(REST_MS, () => stream.rest())
      else stream.start()
    }
    document.addEventListener("visibilitychange", look)
    look()
    return () => {
      document.removeEventListener("visibilitychange", look)
      cancelRest()
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

/** Every batch of events while the component is there; `onGap` when events were lost and what is shown must be loaded anew. */
export const useLiveEvents = (onBatch: (events: readonly OrkEvent[]) => void, onGap?: () => void): void => {
  const stream = useStream()
  const batch = useEffectEvent(onBatch)
  const gap = useEffectEvent(() => onGap?.())
  useEffect(() => {
    const ends = [stream.onBatch((events) => batch(events)), stream.onGap(() => gap())]
    return () => ends.forEach((end) => end())
  }, [stream])
}
