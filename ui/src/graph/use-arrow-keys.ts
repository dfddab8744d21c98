// Arrow keys move the focus to the next box in their direction.

import { useReactFlow } from "@xyflow/react"
import { type RefObject, useCallback } from "react"
import type { Place } from "./layout.ts"
import { neighbour, type Shape } from "./model.ts"

const KEYS: Readonly<Record<string, "left" | "right" | "up" | "down">> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
}

/** Returns a function that handles a key at a box; it returns whether the key is an arrow key. */
export const useArrowKeys = (
  element: RefObject<HTMLElement | null>,
  shape: Shape,
  where: ReadonlyMap<string, Place>,
): ((id: string, key: string) => boolean) => {
  const flow = useReactFlow()
  return useCallback(
    (id: string, key: string): boolean => {
      const direction = KEYS[key]
      const from = where.get(id)
      if (direction === undefined || from === undefined) return false
      const boxes = new Map(shape.boxes.map((box) => [box.id, box]))
      const others = [...where].filter(([other]) => other !== id && boxes.get(other)!.task !== null)
      const next = neighbour(from, others, direction)
      if (next === null) return true
      const place = where.get(next)!
      const zoom = Math.max(flow.getZoom(), 0.6)
      void flow.setCenter(place.x + place.width / 2, place.y + Math.min(place.height, 200) / 2, { zoom, duration: 0 })
      focusBox(element.current, next)
      return true
    },
    [where, shape, flow, element],
  )
}

/** Focuses a box; retries in the next frames, because the box may not be rendered yet. */
const focusBox = (root: HTMLElement | null, id: string, frames = 10): void => {
  const found = root?.querySelector<HTMLElement>(`[data-box="${CSS.escape(id)}"]`)
  if (found !== null && found !== undefined) found.focus({ preventScroll: true })
  else if (frames > 0) requestAnimationFrame(() => focusBox(root, id, frames - 1))
}
