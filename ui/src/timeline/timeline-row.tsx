// One row of the timeline: its name, which stays visible, and its bars.

import { type KeyboardEvent, memo, type ReactElement } from "react"
import { Icon } from "../components/icon.tsx"
import { lookOf } from "../components/status.ts"
import { endedOf, instanceName, totalOf } from "../run/state.ts"
import { drawingOf, segmentWords, type TimelineModel, wordsOf } from "./model.ts"
import type { Row } from "./rows.ts"
import type { TimeScale } from "./scale.ts"
import type { Segment } from "./segments.ts"

export const ROW_HEIGHT = 28

export interface RowActions {
  open: (task: string, path: string) => void
  fold: (task: string) => void
  point: (row: Row | null) => void
  /** Handles arrow keys. */
  go: (row: Row, key: string) => boolean
}

export interface TimelineRowProps {
  row: Row
  top: number
  model: TimelineModel
  version: number
  now: number
  scale: TimeScale
  selected: boolean
  actions: RowActions
}

const percent = (value: number): string => `${(100 * value).toFixed(5)}%`

export const TimelineRow = memo(({ row, top, model, now, scale, selected, actions }: TimelineRowProps): ReactElement => {
  const drawing = drawingOf(model, row, now)
  const { node, instance, depth, fold } = row
  const look = lookOf(drawing.status)
  const isInstance = instance !== null && instance.path !== ""
  const name = isInstance ? instanceName("", instance) : node.short
  const full = isInstance ? instanceName(node.name, instance) : node.name
  const keys = (event: KeyboardEvent): void => {
    if (actions.go(row, event.key)) event.preventDefault()
  }
  return (
    <div
      className={`tl-row${selected ? " tl-selected" : ""}`}
      style={{ transform: `translateY(${top}px)` }}
      onPointerEnter={() => actions.point(row)}
    >
      <div className={`tl-name tone-${look.tone}`} style={{ paddingLeft: `calc(0.25rem + ${depth} * var(--tl-indent))` }}>
        {fold === null ? (
          <span className="tl-fold" />
        ) : (
          <button
            type="button"
            className="tl-fold"
            aria-expanded={fold === "open"}
            aria-label={`${fold === "open" ? "Hide" : "Show"} ${node.isGroup ? "the tasks" : "the instances"} of ${node.name}`}
            onClick={() => actions.fold(node.name)}
          >
            <Icon name="chevron" />
          </button>
        )}
        <button
          type="button"
          className="tl-open"
          data-row-id={row.id}
          aria-current={selected ? "true" : undefined}
          onClick={() => actions.open(node.name, instance?.path ?? "")}
          onFocus={() => actions.point(row)}
          onKeyDown={keys}
        >
          <span className="hidden">{`${full}: ${wordsOf(row, drawing)}`}</span>
          <span className="tl-inside" aria-hidden="true">
            <span className={`status-mark${drawing.status === "running" ? " status-mark-running" : ""}`}>
              <Icon name={look.icon} />
            </span>
            <span className="clip" title={name}>
              {name}
            </span>
            {instance === null && totalOf(node.counts) > 0 ? (
              <span className="faint small number tl-count">
                {endedOf(node.counts)}/{totalOf(node.counts)}
              </span>
            ) : null}
          </span>
        </button>
      </div>
      <div className="tl-lane" aria-hidden="true">
        {drawing.segments.map((segment, i) => (
          <Bar key={i} segment={segment} scale={scale} thin={instance === null && (node.isGroup || fold === "open")} />
        ))}
      </div>
    </div>
  )
})

const Bar = ({ segment, scale, thin }: { segment: Segment; scale: TimeScale; thin: boolean }) => {
  const { kind, from, to, status, open, critical = false } = segment
  const place = scale.placeOf(from)
  const classes = [
    "tl-bar",
    `tl-${kind}`,
    `tone-${lookOf(status).tone}`,
    kind === "run" ? `tl-${status}` : "",
    critical && kind === "run" ? "tl-critical" : "",
    thin ? "tl-thin" : "",
    open ? "tl-live" : "",
  ]
  return (
    <span
      className={classes.join(" ")}
      style={{ left: percent(place / scale.length), width: percent((scale.placeOf(to) - place) / scale.length) }}
      title={segmentWords(segment)}
    />
  )
}
