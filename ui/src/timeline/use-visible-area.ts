// The visible part of a large area: its size and scroll position in steps, so that scrolling renders only when rows enter.

import { type RefObject, useEffect, useState } from "react"

export interface VisibleArea {
  width: number
  height: number
  left: number
  top: number
}

const STEP_Y = 140
const STEP_X = 200

export const useVisibleArea = (element: RefObject<HTMLElement | null>): VisibleArea => {
  const [area, setArea] = useState<VisibleArea>({ width: 0, height: 0, left: 0, top: 0 })
  useEffect(() => {
    const { current } = element
    if (current === null) return
    const update = (): void => {
      const next: VisibleArea = {
        width: current.clientWidth,
        height: current.clientHeight,
        left: Math.floor(current.scrollLeft / STEP_X) * STEP_X,
        top: Math.floor(current.scrollTop / STEP_Y) * STEP_Y,
      }
      setArea((before) => (same(before, next) ? before : next))
    }
    const observer = new ResizeObserver(update)
    observer.observe(current)
    current.addEventListener("scroll", update, { passive: true })
    update()
    return () => {
      observer.disconnect()
      current.removeEventListener("scroll", update)
    }
  }, [element])
  return area
}

const same = (a: VisibleArea, b: VisibleArea): boolean =>
  a.width === b.width && a.height === b.height && a.left === b.left && a.top === b.top
