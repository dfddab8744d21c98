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
import { type GraphTask, instanceId, MOST_INSTANCES, neighbour, type Shape, shapeOf } from "./model.ts"

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
const MOST_IN_GROUP = 60
/** Graphs with more boxes are never shown as a whole, because the text would be unreadable. */
const LARGE = 400
const FIT = { padding: 0.08, maxZoom: 1 }
const MAP_SIZE = { width: 168, height: 112 }
const MARGIN = 24
/** The data of the toolbar. */
const TOOLS = 60
/** Smallest zoom at which text is readable and buttons can be clicked. */
const READABLE = 0.62

export const GraphView = (props: GraphViewProps): ReactElement => {
  const { tasks, feed } = props
  const [closed, setClosed] = useState<ReadonlySet<string>>(
    () => new Set(tasks.filter(({ members }) => members.length > MOST_IN_GROUP).map(({ name }) => name)),
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
        if (!next.delete(task.name)) next.set(task.name, (pathsOf?.(task) ?? []).slice(0, MOST_INSTANCES))
        return next
      })
    },
    [pathsOf],
  )
  return (
    <div className="graph" role="group" aria-label={props.label}>
      <FeedContext value={feed ?? null}>
        <ReactFlowProvider>
          <Drawn {...props} shape={shape} places={places} fold={fold} />
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

const Drawn = ({
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
  const large = shape.boxes.length > LARGE
  // Fit the new layout while the user has not moved the view.
  const moved = useRef(false)
  const show = useEffectEvent(() => {
    const place = chosen === null ? undefined : where.get(chosen)
    if (place !== undefined && !isInSight(place, flow, frame.current)) {
      const zoom = Math.max(flow.getZoom(), 0.75)
      void flow.setCenter(place.x + place.width / 2, place.y + Math.min(place.height, 200) / 2, { zoom })
    } else if (place === undefined && !moved.current) void flow.setViewport(firstView(where.values(), frame.current))
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
          minZoom={large ? 0.25 : 0.1}
          maxZoom={2}
          proOptions={{ hideAttribution: true }}
          aria-label={label}
        >
          <Background gap={24} size={1} color="var(--line)" />
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
        </ReactFlow>
        <Tools />
      </div>
    </ActionsContext>
  )
}

/** Shows the whole graph if it is readable, otherwise its beginning. */
const firstView = (places: Iterable<Place>, frame: HTMLElement | null): { x: number; y: number; zoom: number } => {
  const { clientWidth: width, clientHeight: height } = frame ?? { clientWidth: 0, clientHeight: 0 }
  let right = 1
  let bottom = 1
  for (const place of places) {
    right = Math.max(right, place.x + place.width)
    bottom = Math.max(bottom, place.y + place.height)
  }
  const fit = Math.min(1, (width - 2 * MARGIN) / right, (height - 2 * MARGIN) / bottom)
  const zoom = Math.max(READABLE, fit)
  const along = (room: number, size: number, least: number): number => Math.max(least, (room - size * zoom) / 2)
  return { x: along(width, right, MARGIN), y: along(height, bottom, TOOLS), zoom }
}

/** Reports whether a box is visible and readable. */
const isInSight = (place: Place, flow: ReturnType<typeof useReactFlow>, frame: HTMLElement | null): boolean => {
  const { x, y, zoom } = flow.getViewport()
  const left = place.x * zoom + x
  const top = place.y * zoom + y
  const inside = left >= 0 && top >= 0 && left + 80 < (frame?.clientWidth ?? 0) && top + 30 < (frame?.clientHeight ?? 0)
  return inside && zoom >= 0.45
}

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

const Tools = (): ReactElement => {
  const { zoomIn, zoomOut, fitView } = useReactFlow()
  return (
    <div className="view-tools" role="toolbar" aria-label="Zoom">
      <IconButton label="Zoom in" icon="plus" onClick={() => void zoomIn()} />
      <IconButton label="Zoom out" icon="minus" onClick={() => void zoomOut()} />
      <IconButton label="Show the whole graph" icon="fit" onClick={() => void fitView(FIT)} />
    </div>
  )
}
