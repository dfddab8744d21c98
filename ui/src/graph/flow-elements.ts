// A shape as the nodes and edges of the library that draws it.

import { type Edge, MarkerType, Position } from "@xyflow/react"
import type { BoxData, BoxNode } from "./boxes.tsx"
import type { Place, Places } from "./layout.ts"
import type { GraphTask, Shape } from "./model.ts"

const handlesOf = ({ width, height }: Place) => [
  { type: "target" as const, position: Position.Left, x: 0, y: height / 2, width: 1, height: 1 },
  { type: "source" as const, position: Position.Right, x: width - 1, y: height / 2, width: 1, height: 1 },
]

export const nodesOf = (shape: Shape, places: Places, tasks: readonly GraphTask[], live: boolean): BoxNode[] =>
  shape.boxes.flatMap((box) => {
    const place = places.get(box.id)
    if (place === undefined) return []
    const task = box.task === null ? null : tasks[box.task]!
    const canFold = task !== null && box.kind !== "instance" && (task.isGroup || (live && task.fanOut !== null))
    const data: BoxData = { box, task, fold: canFold ? (box.kind === "frame" ? "close" : "open") : null }
    const { width, height } = place
    return {
      id: box.id,
      type: box.kind,
      data,
      position: { x: place.x, y: place.y },
      width,
      height,
      measured: { width, height },
      handles: handlesOf(place),
      ...(box.parent !== null && { parentId: box.parent }),
    }
  })

export const edgesOf = ({ lines }: Shape): Edge[] =>
  lines.map(({ id, from, to, rule }) => ({
    id,
    source: from,
    target: to,
    ...(rule !== null && { className: "line-rule" }),
    markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--line-strong)" },
  }))
