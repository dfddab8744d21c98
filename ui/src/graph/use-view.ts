// The part of a graph that is shown: a new layout is shown as a whole until the user has moved the view, and the selected box always.

import { useReactFlow } from "@xyflow/react"
import { type RefObject, useEffect, useEffectEvent, useRef, useState } from "react"
import type { Place } from "./layout.ts"
import { centredOn, fittingZoom, isInSight, READABLE, type Size, wholeView } from "./viewport.ts"

interface ViewOptions {
  where: ReadonlyMap<string, Place>
  /** Id of the selected box. */
  chosen: string | null
  /** Another object for each layout. */
  layout: unknown
}

export interface View {
  /** The whole graph is readable. */
  fits: boolean
  /** `event`: null if the code, not the user, moves the view. */
  onMoveStart: (event: object | null) => void
}

export const useView = (element: RefObject<HTMLElement | null>, { where, chosen, layout }: ViewOptions): View => {
  const flow = useReactFlow()
  const [fits, setFits] = useState(true)
  // Fit the new layout while the user has not moved the view.
  const moved = useRef(false)
  const show = useEffectEvent(() => {
    const places = [...where.values()]
    const size = sizeOf(element.current)
    const place = chosen === null ? undefined : where.get(chosen)
    const view = moved.current ? flow.getViewport() : wholeView(places, size, READABLE)
    const isHidden = place !== undefined && !isInSight(place, view, size)
    void flow.setViewport(isHidden ? centredOn(place, size, Math.max(view.zoom, 0.75)) : view)
    setFits(fittingZoom(places, size) >= READABLE)
  })
  useEffect(() => {
    const timer = setTimeout(() => show())
    return () => clearTimeout(timer)
  }, [layout, chosen])
  return {
    fits,
    onMoveStart: (event) => {
      if (event !== null) moved.current = true
    },
  }
}

export const sizeOf = (element: HTMLElement | null): Size => ({
  width: element?.clientWidth ?? 0,
  height: element?.clientHeight ?? 0,
})
