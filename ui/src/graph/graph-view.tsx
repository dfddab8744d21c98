// A graph of a workflow or a run: which groups and fan-outs are open, and the positions of the boxes, which a worker computes.

import { ReactFlowProvider } from "@xyflow/react"
import { type ReactElement, useCallback, useEffect, useMemo, useState } from "react"
import { FeedContext } from "./feed.ts"
import { GraphCanvas, type GraphProps } from "./graph-canvas.tsx"
import { besideHooks, fastLayout, isForElk, type Places } from "./layout.ts"
import { type GraphTask, MAX_INSTANCES, type Shape, shapeOf } from "./model.ts"

export interface GraphViewProps extends GraphProps {
  /** Returns the existing instances of a fan-out. */
  pathsOf?: (task: GraphTask) => readonly string[]
}

/** Groups with more tasks are initially closed. */
const MAX_IN_GROUP = 60

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
