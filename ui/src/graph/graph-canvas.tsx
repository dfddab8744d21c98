// Draws a graph: boxes of boxes.tsx, pan and zoom by the library, which renders only the visible part.

import { Background, ReactFlow, useReactFlow } from "@xyflow/react"
import "@xyflow/react/dist/base.css"
import { type ReactElement, useMemo, useRef } from "react"
import { IconButton } from "../components/button.tsx"
import "../styles/views.css"
import "../styles/graph.css"
import { ActionsContext, type BoxActions, FrameBox, InstanceBox, TaskBox } from "./boxes.tsx"
import { edgesOf, nodesOf } from "./flow-elements.ts"
import type { GraphFeed } from "./feed.ts"
import { GraphMap } from "./graph-map.tsx"
import type { Places } from "./layout.ts"
import type { GraphTask, Shape } from "./model.ts"
import { absolutePlaces, boxOf } from "./positions.ts"
import { useArrowKeys } from "./use-arrow-keys.ts"
import { sizeOf, useView } from "./use-view.ts"
import { wholeView } from "./viewport.ts"

const TYPES = { task: TaskBox, instance: InstanceBox, frame: FrameBox }
/** Graphs with more boxes are never shown as a whole, because the text would be unreadable. */
const LARGE = 400
const LEAST_ZOOM = { large: 0.25, small: 0.1 }

export interface GraphProps {
  tasks: readonly GraphTask[]
  label: string
  /** The states of a run's boxes. `overview` may lag behind; the minimap uses it. */
  feed?: GraphFeed
  overview?: GraphFeed
  selected?: { task: string; path: string } | null
  onOpen?: (task: string, path: string) => void
}

export const GraphCanvas = ({
  shape,
  places,
  tasks,
  feed,
  overview,
  selected,
  onOpen,
  fold,
  label,
}: GraphProps & { shape: Shape; places: Places; fold: (task: GraphTask) => void }): ReactElement => {
  const flow = useReactFlow()
  const element = useRef<HTMLDivElement>(null)
  const live = feed !== undefined
  const nodes = useMemo(() => nodesOf(shape, places, tasks, live), [shape, places, tasks, live])
  const edges = useMemo(() => edgesOf(shape), [shape])
  const where = useMemo(() => absolutePlaces(shape, places), [shape, places])
  const chosen = selected === undefined || selected === null ? null : boxOf(shape, selected)
  const go = useArrowKeys(element, shape, where)
  const actions: BoxActions = useMemo(
    () => ({ selected: chosen, open: (task, path) => onOpen?.(task, path), fold, go }),
    [chosen, onOpen, fold, go],
  )
  const leastZoom = shape.boxes.length > LARGE ? LEAST_ZOOM.large : LEAST_ZOOM.small
  const { fits, onMoveStart } = useView(element, { where, chosen, layout: nodes })
  return (
    <ActionsContext value={actions}>
      <div ref={element} className="graph-frame">
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={TYPES}
          onlyRenderVisibleElements
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          onMoveStart={onMoveStart}
          minZoom={leastZoom}
          maxZoom={2}
          proOptions={{ hideAttribution: true }}
          aria-label={label}
        >
          <Background gap={24} size={1} color="var(--line)" />
          {fits ? null : <GraphMap feed={overview ?? null} />}
        </ReactFlow>
        <Tools showAll={() => void flow.setViewport(wholeView([...where.values()], sizeOf(element.current), leastZoom))} />
      </div>
    </ActionsContext>
  )
}

const Tools = ({ showAll }: { showAll: () => void }): ReactElement => {
  const { zoomIn, zoomOut } = useReactFlow()
  return (
    <div className="view-tools" role="toolbar" aria-label="Zoom">
      <IconButton label="Zoom in" icon="plus" onClick={() => void zoomIn()} />
      <IconButton label="Zoom out" icon="minus" onClick={() => void zoomOut()} />
      <IconButton label="Show the whole graph" icon="fit" onClick={showAll} />
    </div>
  )
}
