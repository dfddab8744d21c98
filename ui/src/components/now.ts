// One clock for all relative times of the UI: a single timer, however many times are shown.

import { useSyncExternalStore } from "react"

let now = Date.now()
let timer: ReturnType<typeof setInterval> | null = null
const listeners = new Set<() => void>()

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener)
  timer ??= setInterval(() => {
    now = Date.now()
    for (const each of listeners) each()
  }, 1000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0 || timer === null) return
    clearInterval(timer)
    timer = null
  }
}

const snapshot = (): number => {
  if (timer === null) now = Date.now()
  return now
}

const still = (): (() => void) => () => undefined

/** Returns the current time, updated every second; constant with `false`. */
export const useNow = (ticking = true): number => useSyncExternalStore(ticking ? subscribe : still, snapshot)

/** Returns `derive(now)` and renders again only when the result changes. */
export const useNowText = (derive: (now: number) => string, ticking = true): string =>
  useSyncExternalStore(ticking ? subscribe : still, () => derive(snapshot()))
