// The zoom of the timeline, by keys, buttons and wheel: the time under the pointer, or in the middle, stays in place.

import { type RefObject, useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from "react"
import { useShortcut } from "../keyboard/use-shortcuts.ts"
import { scrollAfterZoom, zoomBy } from "./axis.ts"

const STEP = 1.5

export interface Zoom {
  /** Width of the whole axis, as a multiple of its visible part. */
  zoom: number
  zoomIn: () => void
  zoomOut: () => void
  reset: () => void
}

/** `lane`: width of the visible part of the axis, which begins `inset` pixels from the left edge of the scroller. */
export const useZoom = (scroller: RefObject<HTMLElement | null>, { lane, inset }: { lane: number; inset: number }): Zoom => {
  const [zoom, setZoom] = useState(1)
  const scrollTo = useRef<number | null>(null)
  const zoomAt = (factor: number, at = lane / 2): void => {
    const next = zoomBy(zoom, factor, lane)
    scrollTo.current = scrollAfterZoom(scroller.current?.scrollLeft ?? 0, at, zoom, next)
    setZoom(next)
  }
  useLayoutEffect(() => {
    if (scrollTo.current !== null) scroller.current?.scrollTo({ left: scrollTo.current })
    scrollTo.current = null
  }, [zoom, scroller])
  const onWheel = useEffectEvent((event: WheelEvent) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) return
    event.preventDefault()
    const left = scroller.current?.getBoundingClientRect().left ?? 0
    zoomAt(Math.exp(-event.deltaY / 300), event.clientX - left - inset)
  })
  useEffect(() => {
    const { current } = scroller
    const wheel = (event: WheelEvent): void => onWheel(event)
    current?.addEventListener("wheel", wheel, { passive: false })
    return () => current?.removeEventListener("wheel", wheel)
  }, [scroller])
  const zoomIn = (): void => zoomAt(STEP)
  const zoomOut = (): void => zoomAt(1 / STEP)
  const reset = (): void => setZoom(1)
  useShortcut("+", "Zoom in", zoomIn)
  useShortcut("-", "Zoom out", zoomOut)
  useShortcut("0", "Show the whole time", reset)
  return { zoom, zoomIn, zoomOut, reset }
}
