// The rows and the axis of the timeline. Only visible rows are rendered, so that 10,000 rows scroll like ten; the browser scrolls the area.
// Zooming widens the area; bars are fractions of it.

import { type CSSProperties, type ReactElement, useMemo, useRef, useState } from "react"
import type { Run } from "../api/types.ts"
import { IconButton } from "../components/button.tsx"
import { useNow } from "../components/now.ts"
import type { TimelineModel } from "./model.ts"
import type { Row } from "./rows.ts"
import { axisEnd, scaleOf, type TimeScale } from "./scale.ts"
import { TimelineAxis } from "./timeline-axis.tsx"
import { Detail, Legend } from "./timeline-foot.tsx"
import { ROW_HEIGHT, type RowActions, TimelineRow } from "./timeline-row.tsx"
import { useVisibleArea } from "./use-visible-area.ts"
import { useZoom } from "./use-zoom.ts"

const OVERSCAN = 12
const AXIS_HEIGHT = 28

export interface TimelineCanvasProps {
  run: Run
  version: number
  selected: { task: string; path: string } | null
  onOpen: (task: string, path: string) => void
  rows: Row[]
  model: TimelineModel
  fold: (task: string) => void
}

export const TimelineCanvas = ({ run, rows, model, version, selected, onOpen, fold }: TimelineCanvasProps): ReactElement => {
  const scroller = useRef<HTMLDivElement>(null)
  const area = useVisibleArea(scroller)
  const [pointed, setPointed] = useState<Row | null>(null)
  const now = useNow(run.finished_at === null)
  const scale = useScale(run, model, now)
  const isNarrow = area.width < 640
  const names = isNarrow ? 152 : 240
  const lane = Math.max(1, area.width - names)
  const { zoom, zoomIn, zoomOut, reset } = useZoom(scroller, { lane, inset: names })
  const width = lane * zoom

  const actions = useMemo(
    (): RowActions => ({
      open: onOpen,
      fold,
      point: setPointed,
      go: (row, key) => scroller.current !== null && goFrom(scroller.current, rows, row, key),
    }),
    [onOpen, fold, rows],
  )
  // Before the first measurement, rows would be drawn for a width of 0.
  const { first, last } = visibleRows(area, area.width === 0 ? 0 : rows.length)
  const detail = pointed === null ? null : (rows.find(({ id }) => id === pointed.id) ?? null)
  return (
    <>
      <div className={isNarrow ? "tl tl-narrow" : "tl"} style={{ "--tl-names": `${names}px` } as CSSProperties}>
        <div
          ref={scroller}
          className="tl-scroll"
          role="group"
          aria-label="Timeline of the run"
          onPointerLeave={() => setPointed(null)}
        >
          <div className="tl-plane" style={{ width: names + width, height: AXIS_HEIGHT + rows.length * ROW_HEIGHT }}>
            <TimelineAxis scale={scale} width={width} lane={lane} left={area.left} />
            {rows.slice(first, last).map((row, i) => (
              <TimelineRow
                key={row.id}
                row={row}
                top={AXIS_HEIGHT + (first + i) * ROW_HEIGHT}
                model={model}
                version={version}
                now={now}
                scale={scale}
                selected={selected?.task === row.node.name && selected.path === (row.instance?.path ?? "")}
                actions={actions}
              />
            ))}
          </div>
        </div>
        <div className="view-tools tl-tools" role="toolbar" aria-label="Zoom">
          <IconButton label="Zoom in (+)" icon="plus" onClick={zoomIn} />
          <IconButton label="Zoom out (-)" icon="minus" onClick={zoomOut} />
          <IconButton label="Show the whole range (0)" icon="fit" onClick={reset} />
        </div>
      </div>
      <div className="tl-foot small soft">
        {detail === null ? <Legend breaks={scale.breaks} /> : <Detail row={detail} model={model} now={now} />}
      </div>
    </>
  )
}

/** Returns the range of the rows to draw: the visible ones and some more, for fast scrolling. */
const visibleRows = ({ top, height }: { top: number; height: number }, count: number): { first: number; last: number } => ({
  first: Math.max(0, Math.floor(top / ROW_HEIGHT) - OVERSCAN),
  last: Math.min(count, Math.ceil((top + height) / ROW_HEIGHT) + OVERSCAN),
})

const useScale = (run: Run, { breaks }: TimelineModel, now: number): TimeScale => {
  const from = Date.parse(run.started_at!)
  const to = axisEnd(
    { startedAt: from, finishedAt: run.finished_at === null ? null : Date.parse(run.finished_at), now },
    breaks,
  )
  return useMemo(() => scaleOf({ from, to }, breaks), [from, to, breaks])
}

/** Handles arrow keys: to the row above or below, or along the time axis. */
const goFrom = (scroller: HTMLElement, rows: readonly Row[], row: Row, key: string): boolean => {
  if (key === "ArrowLeft" || key === "ArrowRight") {
    scroller.scrollBy({ left: key === "ArrowLeft" ? -120 : 120 })
    return true
  }
  if (key !== "ArrowUp" && key !== "ArrowDown") return false
  const index = rows.findIndex(({ id }) => id === row.id) + (key === "ArrowUp" ? -1 : 1)
  const next = rows[index]
  if (next === undefined) return true
  const top = index * ROW_HEIGHT
  if (top < scroller.scrollTop) scroller.scrollTop = top
  const bottom = scroller.scrollTop + scroller.clientHeight - AXIS_HEIGHT - ROW_HEIGHT
  if (top > bottom) scroller.scrollTop += top - bottom
  focusRow(scroller, next.id)
  return true
}

const focusRow = (root: HTMLElement, id: string, frames = 10): void => {
  const found = root.querySelector<HTMLElement>(`[data-row-id="${CSS.escape(id)}"]`)
  if (found !== null) found.focus({ preventScroll: true })
  else if (frames > 0) requestAnimationFrame(() => focusRow(root, id, frames - 1))
}
