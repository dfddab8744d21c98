// The visible part of a large area: its size and scroll position in steps, so that scrolling renders only when rows enter.

import { type RefObject, useEffect, useState } from "react"

export interface Sight {
  width: number
  height: number
  left: number
  top: number
}

const STEP_Y = 140
const STEP_X = 200

export const useSight = (element: RefObject<HTMLElement | null>): Sight => {
  const [sight, setSight] = useState<Sight>({ width: 0, height: 0, left: 0, top: 0 })
  useEffect(() => {
    const { current } = element
    if (current === null) return
    const look = (): void => {
      const next: Sight = {
        width: current.clientWidth,
        height: current.clientHeight,
        left: Math.floor(current.scrollLeft / STEP_X) * STEP_X,
        top: Math.floor(current.scrollTop / STEP_Y) * STEP_Y,
      }
      setSight((before) => (same(before, next) ? before : next))
    }
    const observer = new ResizeObserver(look)
    observer.observe(current)
    current.addEventListener("scroll", look, { passive: true })
    look()
    return () => {
      observer.disconnect()
      current.removeEventListener("scroll", look)
    }
  }, [element])
  return sight
}

const same = (a: Sight, b: Sight): boolean =>
  a.width === b.width && a.height === b.height && a.left === b.left && a.top === b.top
