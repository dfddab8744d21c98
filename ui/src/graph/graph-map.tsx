// The small map of a graph that is larger than its view, with the state of each box.

import { MiniMap, type MiniMapNodeProps } from "@xyflow/react"
import type { ReactElement } from "react"
import { lookOf } from "../components/status.ts"
import { FeedContext, type GraphFeed, useBoxView } from "./feed.ts"

const MAP_SIZE = { width: 168, height: 112 }

export const GraphMap = ({ feed }: { feed: GraphFeed | null }): ReactElement => (
  <FeedContext value={feed}>
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
)

const mapClass = ({ type }: { type?: string | undefined }): string => (type === "frame" ? "map-frame" : "")

const MapBox = ({ id, x, y, width, height, className }: MiniMapNodeProps): ReactElement => {
  const [, name = id, path = ""] = /^(.*)\[([\d.]+)\]$/.exec(id) ?? []
  const view = useBoxView(name, path)
  const tone = view === null ? "" : ` tone-${lookOf(view.status).tone}`
  return <rect className={`map-box ${className}${tone}`} x={x} y={y} width={width} height={height} rx={6} />
}
