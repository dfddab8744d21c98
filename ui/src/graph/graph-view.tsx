// Draws a graph: positions from a worker, boxes of boxes.tsx, pan and zoom by the library, which renders only the visible part. Used for
// workflows and for runs.

import {
  Background,
  type Edge,
  MarkerType,
  MiniMap,
  type MiniMapNodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from "@xyflow/react"
import "@xyflow/react/dist/base.css"
import { type ReactElement, useCallback, useEffect, useEffectEvent, useMemo, useRef, useState } from "react"
import { IconButton } from "../components/button.tsx"
import { lookOf } from "../components/status.ts"
import "../styles/views.css"
import "../styles/graph.css"
import { ActionsContext, type BoxActions, type BoxData, type BoxNode, FrameBox, InstanceBox, TaskBox } from "./boxes.tsx"
import { FeedContext, type GraphFeed, useBoxView } from "./feed.ts"
import { besideHooks, fastLayout, isForElk, type Place, type Places } from "./layout.ts"
import { centredOn, fittingZoom, isInSight, READABLE, type Size, wholeView } from "./viewport.ts"
import { type GraphTask, instanceId, MAX_INSTANCES, neighbour, type Shape, shapeOf } from "./model.ts"

export interface GraphViewProps {
  tasks: readonly GraphTask[]
  label: string
  /** The states of a run's boxes. `overview` may lag behind; the minimap uses it. */
  feed?: GraphFeed
  overview?: GraphFeed
  /** Returns the existing instances of a fan-out. */
  pathsOf?: (task: GraphTask) => readonly string[]
  selected?: { task: string; path: string } | null
  onOpen?: (task: string, path: string) => void
}

const TYPES = { task: TaskBox, instance: InstanceBox, frame: FrameBox }
const KEYS: Readonly<Record<string, "left" | "right" | "up" | "down">> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
}
/** Groups with more tasks are initially closed. */
const MAX_IN_GROUP = 60
/** Graphs with more boxes are never shown as a whole, because the text would be unreadable. */
const LARGE = 400
const MAP_SIZE = { width: 168, height: 112 }
const LEAST_ZOOM = { large: 0.25, small: 0.1 }

export const GraphView = (props: GraphViewProps): ReactElement => {
  const { tasks, feed } = props
  const [closed, setClosed] = useState<ReadonlySet<string>>(
    () => new Set(tasks.filter(({ members }) => members.length > MAX_IN_GROUP).map(({ name }) => name)),
  )
  const [fans, setFans] = useState<ReadonlyMap<string, readonly string[]>>(new Map())
  const shape = useMemo(() => shapeOf(tasks, { closed, fans }), [tasks, closed, fans])
  const places = usePlaces(shape)
  const { pathsOf } = props
  const fold = useCallback(
    (task: GraphTask): void => {
      if (task.isGroup) {
        setClosed((before) => (before.has(task.name) ? without(before, task.name) : new Set([...before, task.name])))
        return
      }
      setFans((before) => {
        const next = new Map(before)
        if (!next.delete(task.name)) next.set(task.name, (pathsOf?.(task) ?? []).slice(0, MAX_INSTANCES))
        return next
      })
    },
    [pathsOf],
  )
  return (
    <div className="graph" role="group" aria-label={props.label}>
      <FeedContext value={feed ?? null}>
        <ReactFlowProvider>
          <GraphCanvas {...props} shape={shape} places={places} fold={fold} />
        </ReactFlowProvider>
      </FeedContext>
    </div>
  )
}

const without = (set: ReadonlySet<string>, value: string): ReadonlySet<string> =>
  new Set([...set].filter((each) => each !== value))

/** Returns the positions of a shape: first those of the fast layout, then better ones from the worker if available. */
const usePlaces = (shape: Shape): Places => {
  const fast = useMemo(() => fastLayout(shape), [shape])
  const [better, setBetter] = useState<{ key: string; places: Places } | null>(null)
  useEffect(() => {
    if (!isForElk(shape)) return
    const abort = new AbortController()
    void import("./elk.ts")
      .then(({ elkPlaces }) => besideHooks(shape, (rest) => elkPlaces(rest, abort.signal)))
      .then((places) => {
        if (places !== null && !abort.signal.aborted) setBetter({ key: shape.key, places })
      })
      // Without its code, the graph keeps the fast layout.
      .catch(() => undefined)
    return () => abort.abort()
  }, [shape])
  return better?.key === shape.key ? better.places : fast
}

const handlesOf = ({ width, height }: Place) => [
  { type: "target" as const, position: Position.Left, x: 0, y: height / 2, width: 1, height: 1 },
  { type: "source" as const, position: Position.Right, x: width - 1, y: height / 2, width: 1, height: 1 },
]

const nodesOf = (shape: Shape, places: Places, tasks: readonly GraphTask[], live: boolean): BoxNode[] =>
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

const edgesOf = ({ lines }: Shape): Edge[] =>
  lines.map(({ id, from, to, rule }) => ({
    id,
    source: from,
    target: to,
    ...(rule !== null && { className: "line-rule" }),
    markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14, color: "var(--line-strong)" },
  }))

/** Returns the absolute position of each box. */
const absolute = (shape: Shape, places: Places): Map<string, Place> => {
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

const GraphCanvas = ({
  shape,
  places,
  tasks,
  feed,
  overview,
  selected,
  onOpen,
  fold,
  label,
}: GraphViewProps & { shape: Shape; places: Places; fold: (task: GraphTask) => void }): ReactElement => {
  const flow = useReactFlow()
  const frame = useRef<HTMLDivElement>(null)
  const live = feed !== undefined
  const nodes = useMemo(() => nodesOf(shape, places, tasks, live), [shape, places, tasks, live])
  const edges = useMemo(() => edgesOf(shape), [shape])
  const where = useMemo(() => absolute(shape, places), [shape, places])
  const chosen = selected === undefined || selected === null ? null : boxOf(shape, selected)
  const go = useCallback(
    (id: string, key: string): boolean => {
      const direction = KEYS[key]
      const from = where.get(id)
      if (direction === undefined || from === undefined) return false
      const kinds = new Map(shape.boxes.map((box) => [box.id, box]))
      const others = [...where].filter(([other]) => other !== id && kinds.get(other)!.task !== null)
      const next = neighbour(from, others, direction)
      if (next === null) return true
      const place = where.get(next)!
      const zoom = Math.max(flow.getZoom(), 0.6)
      void flow.setCenter(place.x + place.width / 2, place.y + Math.min(place.height, 200) / 2, { zoom, duration: 0 })
      focusBox(frame.current, next)
      return true
    },
    [where, shape, flow],
  )
  const actions: BoxActions = useMemo(
    () => ({ selected: chosen, open: (task, path) => onOpen?.(task, path), fold, go }),
    [chosen, onOpen, fold, go],
  )
  const leastZoom = shape.boxes.length > LARGE ? LEAST_ZOOM.large : LEAST_ZOOM.small
  const [fits, setFits] = useState(true)
  // Fit the new layout while the user has not moved the view.
  const moved = useRef(false)
  const show = useEffectEvent(() => {
    const places = [...where.values()]
    const size = sizeOf(frame.current)
    const place = chosen === null ? undefined : where.get(chosen)
    const view = moved.current ? flow.getViewport() : wholeView(places, size, READABLE)
    const isHidden = place !== undefined && !isInSight(place, view, size)
    void flow.setViewport(isHidden ? centredOn(place, size, Math.max(view.zoom, 0.75)) : view)
    setFits(fittingZoom(places, size) >= READABLE)
  })
  useEffect(() => {
    const timer = setTimeout(() => show())
    return () => clearTimeout(timer)
  }, [nodes, chosen])
  return (
    <ActionsContext value={actions}>
      <div ref={frame} className="graph-frame">
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
          onMoveStart={(event) => {
            if (event !== null) moved.current = true
          }}
          minZoom={leastZoom}
          maxZoom={2}
          proOptions={{ hideAttribution: true }}
          aria-label={label}
        >
          <Background gap={24} size={1} color="var(--line)" />
          {fits ? null : (
            <FeedContext value={overview ?? null}>
              <MiniMap
                pannable
                zoomable
                ariaLabel="Map of the whole graph"
                style={MAP_SIZE}
                nodeComponent={MapBox}
                nodeClassName={mapClass}
                maskColor="color-mix(in srgb, var(--ground) 65%, transparent)"
                bgColor="var(--surface)"
              />
            </FeedContext>
          )}
        </ReactFlow>
        <Tools showAll={() => void flow.setViewport(wholeView([...where.values()], sizeOf(frame.current), leastZoom))} />
      </div>
    </ActionsContext>
  )
}

const sizeOf = (frame: HTMLElement | null): Size => ({ width: frame?.clientWidth ?? 0, height: frame?.clientHeight ?? 0 })

const boxOf = ({ boxes }: Shape, { task, path }: { task: string; path: string }): string | null => {
  const ids = new Set(boxes.map(({ id }) => id))
  const instance = instanceId(task, path)
  return ids.has(instance) ? instance : ids.has(task) ? task : null
}

/** Focuses a box; retries in the next frames, because the box may not be rendered yet. */
const focusBox = (root: HTMLElement | null, id: string, frames = 10): void => {
  const found = root?.querySelector<HTMLElement>(`[data-box="${CSS.escape(id)}"]`)
  if (found !== null && found !== undefined) found.focus({ preventScroll: true })
  else if (frames > 0) requestAnimationFrame(() => focusBox(root, id, frames - 1))
}

const mapClass = ({ type }: { type?: string | undefined }): string => (type === "frame" ? "map-frame" : "")

const MapBox = ({ id, x, y, width, height, className }: MiniMapNodeProps): ReactElement => {
  const [, name = id, path = ""] = /^(.*)\[([\d.]+)\]$/.exec(id) ?? []
  const view = useBoxView(name, path)
  const tone = view === null ? "" : ` tone-${lookOf(view.status).tone}`
  return <rect className={`map-box ${className}${tone}`} x={x} y={y} width={width} height={height} rx={6} />
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
