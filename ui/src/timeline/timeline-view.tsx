// The timeline (Gantt chart) of a run. Only visible rows are rendered, so that 10,000 rows scroll like ten; the browser scrolls the area.
// Zooming widens the area; bars are fractions of it.

import {
  type CSSProperties,
  type ReactElement,
  useCallback,
  useEffect,
  useEffectEvent,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react"
import type { Run } from "../api/types.ts"
import { Button, IconButton } from "../components/button.tsx"
import { useNow } from "../components/now.ts"
import { Empty } from "../components/states.tsx"
import { useThrottled } from "../components/throttled.ts"
import { durationText } from "../format/time.ts"
import { useShortcut } from "../keyboard/use-shortcuts.ts"
import { instanceName, type RunState, runCounts, totalOf } from "../run/state.ts"
import "../styles/views.css"
import "../styles/timeline.css"
import { scrollAfterZoom, stepFor, ticksOf, zoomBy } from "./axis.ts"
import { drawingOf, type TimelineModel, timelineModel, wordsOf } from "./model.ts"
import { type Row, rowsOf } from "./rows.ts"
import { axisEnd, scaleOf, type ScaledBreak, type TimeScale } from "./scale.ts"
import { TimelineTable } from "./timeline-table.tsx"
import { ROW_HEIGHT, type RowActions, TimelineRow } from "./timeline-row.tsx"
import { useVisibleArea } from "./use-visible-area.ts"

const OVERSCAN = 12
/** Above this number of instances the timeline updates a few times per second instead of every frame. */
const MANY = 1000
const MANY_MS = 250
const AXIS_HEIGHT = 28

const ms = (at: string | null): number | null => (at === null ? null : Date.parse(at))

export interface TimelineViewProps {
  run: Run
  state: RunState
  version: number
  selected: { task: string; path: string } | null
  onOpen: (task: string, path: string) => void
}

export const TimelineView = ({ run, state, version, selected, onOpen }: TimelineViewProps): ReactElement => {
  const [asTable, setAsTable] = useState(false)
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set())
  const shown = useThrottled(version, totalOf(runCounts(state)) > MANY ? MANY_MS : 0)
  const startedAt = ms(run.started_at)
  const { idle_ms: idleMs } = run
  const now = useNow(run.finished_at === null)
  // Only breaks depend on the time.
  const until = ms(run.finished_at) ?? (idleMs === 0 ? 0 : now)
  // The state object is mutable; the version indicates changes.
  const { model, rows } = useMemo(
    () => ({
      model: timelineModel(state, { startedAt, idleMs, now: until }),
      rows: rowsOf(state, toggled),
      shown,
    }),
    [state, startedAt, idleMs, until, toggled, shown],
  )
  const fold = useCallback((task: string): void => {
    setToggled((before) => {
      const next = new Set(before)
      if (!next.delete(task)) next.add(task)
      return next
    })
  }, [])
  if (startedAt === null) {
    return (
      <Empty title="Nothing has started yet" icon="clock">
        The timeline begins with the first task.
      </Empty>
    )
  }
  return (
    <>
      <div className="tl-head">
        <CriticalPath model={model} />
        <Button kind="quiet" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show as timeline" : "Show as table"}
        </Button>
      </div>
      {asTable ? (
        <TimelineTable rows={rows} model={model} now={now} onOpen={onOpen} />
      ) : (
        <TimelineCanvas run={run} rows={rows} model={model} version={shown} selected={selected} onOpen={onOpen} fold={fold} />
      )}
    </>
  )
}

const CriticalPath = ({ model: { path, state } }: { model: TimelineModel }): ReactElement => {
  const names = path.map((instance) => instanceName(state.nodes[instance.node]!.name, instance))
  const ran = path.reduce((sum, { startedAt, finishedAt }) => sum + finishedAt! - startedAt!, 0)
  return (
    <p className="small soft tl-path">
      {path.length === 0 ? (
        "The critical path is known when a task has ended."
      ) : (
        <>
          <span className="tl-key tl-critical" /> Critical path, {durationText(ran)} of work:{" "}
          <span className="mono">{names.join(" → ")}</span>
        </>
      )}
    </p>
  )
}

type TimelineCanvasProps = Pick<TimelineViewProps, "run" | "version" | "selected" | "onOpen"> & {
  rows: Row[]
  model: TimelineModel
  fold: (task: string) => void
}

const TimelineCanvas = ({ run, rows, model, version, selected, onOpen, fold }: TimelineCanvasProps): ReactElement => {
  const scroller = useRef<HTMLDivElement>(null)
  const area = useVisibleArea(scroller)
  const [zoom, setZoom] = useState(1)
  const [pointed, setPointed] = useState<Row | null>(null)
  const now = useNow(run.finished_at === null)
  const scale = useScale(run, model, now)
  const isNarrow = area.width < 640
  const names = isNarrow ? 152 : 240
  const lane = Math.max(1, area.width - names)
  const width = lane * zoom

  const scrollTo = useRef<number | null>(null)
  const zoomAt = (factor: number, at = lane / 2): void => {
    const next = zoomBy(zoom, factor, lane)
    scrollTo.current = scrollAfterZoom(scroller.current?.scrollLeft ?? 0, at, zoom, next)
    setZoom(next)
  }
  useLayoutEffect(() => {
    if (scrollTo.current !== null && scroller.current !== null) scroller.current.scrollLeft = scrollTo.current
    scrollTo.current = null
  }, [zoom])
  const onWheel = useEffectEvent((event: WheelEvent) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) return
    event.preventDefault()
    const left = scroller.current?.getBoundingClientRect().left ?? 0
    zoomAt(Math.exp(-event.deltaY / 300), event.clientX - left - names)
  })
  useEffect(() => {
    const { current } = scroller
    const wheel = (event: WheelEvent): void => onWheel(event)
    current?.addEventListener("wheel", wheel, { passive: false })
    return () => current?.removeEventListener("wheel", wheel)
  }, [])
  useShortcut("+", "Zoom in", () => zoomAt(1.5))
  useShortcut("-", "Zoom out", () => zoomAt(1 / 1.5))
  useShortcut("0", "Show the whole time", () => setZoom(1))

  const actions = useMemo(
    (): RowActions => ({
      open: onOpen,
      fold,
      point: setPointed,
      go: (row, key) => scroller.current !== null && goFrom(scroller.current, rows, row, key),
    }),
    [onOpen, fold, rows],
  )
  const first = Math.max(0, Math.floor(area.top / ROW_HEIGHT) - OVERSCAN)
  // Before the first measurement, rows would be drawn for a width of 0.
  const count = area.width === 0 ? 0 : rows.length
  const last = Math.min(count, Math.ceil((area.top + area.height) / ROW_HEIGHT) + OVERSCAN)
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
            <Axis scale={scale} width={width} lane={lane} left={area.left} />
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
          <IconButton label="Zoom in (+)" icon="plus" onClick={() => zoomAt(1.5)} />
          <IconButton label="Zoom out (-)" icon="minus" onClick={() => zoomAt(1 / 1.5)} />
          <IconButton label="Show the whole range (0)" icon="fit" onClick={() => setZoom(1)} />
        </div>
      </div>
      <div className="tl-foot small soft">
        {detail === null ? <Legend breaks={scale.breaks} /> : <Detail row={detail} model={model} now={now} />}
      </div>
    </>
  )
}

const useScale = (run: Run, { breaks }: TimelineModel, now: number): TimeScale => {
  const from = Date.parse(run.started_at!)
  const to = axisEnd({ startedAt: from, finishedAt: ms(run.finished_at), now }, breaks)
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

/** Width of the text of a break, and of a tick, in pixels. */
const BREAK_WIDTH = 60
const TICK_WIDTH = 64

interface AxisProps {
  scale: TimeScale
  width: number
  lane: number
  left: number
}

const Axis = ({ scale, width, lane, left }: AxisProps): ReactElement => {
  const msPerPixel = scale.length / width
  const from = scale.timeAt(Math.max(0, left - 200) * msPerPixel)
  const to = scale.timeAt((left + lane + 400) * msPerPixel)
  const ticks = scale.parts
    .flatMap((part) => ticksOf(Math.max(from, part.from), Math.min(to, part.to), stepFor(msPerPixel)))
    .map((tick) => ({ ...tick, left: scale.placeOf(tick.at) / msPerPixel }))
  const breaks = scale.breaks.map((pause) => ({ ...pause, middle: (pause.place + pause.length / 2) / msPerPixel }))
  const isCovered = (x: number): boolean =>
    breaks.some(({ middle }) => x > middle - BREAK_WIDTH / 2 - TICK_WIDTH && x < middle + BREAK_WIDTH / 2)
  return (
    <>
      <div className="tl-axis" aria-hidden="true">
        {ticks
          .filter((tick) => !isCovered(tick.left))
          .map(({ at, text, left: x }) => (
            <span key={at} className="tl-tick" style={{ left: x }}>
              {text}
            </span>
          ))}
        {breaks.map(({ from: start, to: end, open, middle }) => (
          <span key={start} className="tl-break-text" style={{ left: middle - BREAK_WIDTH / 2, width: BREAK_WIDTH }}>
            {open ? "…" : durationText(end - start)}
          </span>
        ))}
      </div>
      <div className="tl-lines" aria-hidden="true">
        {scale.breaks.map(({ from: start, place, length }) => (
          <span key={`break ${start}`} className="tl-break" style={{ left: place / msPerPixel, width: length / msPerPixel }} />
        ))}
        {ticks.map(({ at, left: x }) => (
          <span key={at} style={{ left: x }} />
        ))}
      </div>
    </>
  )
}

const Detail = ({ row, model, now }: { row: Row; model: TimelineModel; now: number }): ReactElement => (
  <span>
    <b className="mono">{row.instance !== null && row.instance.path !== "" ? row.id : row.node.name}</b>{" "}
    {wordsOf(row, drawingOf(model, row, now))}
  </span>
)

const Legend = ({ breaks }: { breaks: readonly ScaledBreak[] }): ReactElement => (
  <>
    {breaks.map(({ from, to, open }) => (
      <span key={from}>
        <span className="tl-key tl-break" />{" "}
        {open ? "nothing has run since" : `nothing ran for ${durationText(to - from)}, until the run was retried`}
      </span>
    ))}
    <span>
      <span className="tl-key tl-wait tone-waiting" /> waiting to begin
    </span>
    <span>
      <span className="tl-key tl-run tone-running" /> running
    </span>
    <span>
      <span className="tl-key tl-run tl-failed tone-failed" /> failed attempt
    </span>
    <span>
      <span className="tl-key tl-retry tone-waiting" /> until the next attempt
    </span>
    <span>Ctrl and wheel zoom</span>
  </>
)
