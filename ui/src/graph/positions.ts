// Positions of the boxes on the whole plane, and the box of a selected task. Pure.

import type { Place, Places } from "./layout.ts"
import { instanceId, type Shape } from "./model.ts"

/** Returns the absolute position of each box. */
export const absolutePlaces = (shape: Shape, places: Places): Map<string, Place> => {
  const found = new Map<string, Place>()
  // Frames precede their contents.
  for (const { id, parent } of shape.boxes) {
    const own = places.get(id)
    if (own === undefined) continue
    const around = parent === null ? undefined : found.get(parent)
    found.set(id, around === undefined ? own : { ...own, x: own.x + around.x, y: own.y + around.y })
  }
  return found
}

/** Returns the id of the box of a task or instance; of the closed fan-out around an instance; null if there is none. */
export const boxOf = ({ boxes }: Shape, { task, path }: { task: string; path: string }): string | null => {
  const ids = new Set(boxes.map(({ id }) => id))
  const instance = instanceId(task, path)
  return ids.has(instance) ? instance : ids.has(task) ? task : null
}
