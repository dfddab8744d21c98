// The line below the timeline: the row under the pointer, or the meaning of the colours.

import type { ReactElement } from "react"
import { durationText } from "../format/time.ts"
import { drawingOf, type TimelineModel, wordsOf } from "./model.ts"
import type { Row } from "./rows.ts"
import type { ScaledBreak } from "./scale.ts"

export const Detail = ({ row, model, now }: { row: Row; model: TimelineModel; now: number }): ReactElement => (
  <span>
    <b className="mono">{row.instance !== null && row.instance.path !== "" ? row.id : row.node.name}</b>{" "}
    {wordsOf(row, drawingOf(model, row, now))}
  </span>
)

export const Legend = ({ breaks }: { breaks: readonly ScaledBreak[] }): ReactElement => (
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
