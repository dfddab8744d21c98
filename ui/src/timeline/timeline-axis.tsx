// The time axis above the rows, and its lines through them.

import type { ReactElement } from "react"
import { durationText } from "../format/time.ts"
import { axisMarks, BREAK_WIDTH, middleOf } from "./axis-marks.ts"
import type { TimeScale } from "./scale.ts"

interface AxisProps {
  scale: TimeScale
  /** Width of the whole axis; `lane`: of its visible part, which begins at `left`. */
  width: number
  lane: number
  left: number
}

export const TimelineAxis = ({ scale, width, lane, left }: AxisProps): ReactElement => {
  const { ticks, breaks } = axisMarks(scale, { width, lane, left })
  return (
    <>
      <div className="tl-axis" aria-hidden="true">
        {ticks
          .filter(({ covered }) => !covered)
          .map(({ at, text, left: x }) => (
            <span key={at} className="tl-tick" style={{ left: x }}>
              {text}
            </span>
          ))}
        {breaks.map((each) => (
          <span
            key={each.from}
            className="tl-break-text"
            style={{ left: middleOf(each) - BREAK_WIDTH / 2, width: BREAK_WIDTH }}
          >
            {each.open ? "…" : durationText(each.to - each.from)}
          </span>
        ))}
      </div>
      <div className="tl-lines" aria-hidden="true">
        {breaks.map((each) => (
          <span key={`break ${each.from}`} className="tl-break" style={{ left: each.left, width: each.width }} />
        ))}
        {ticks.map(({ at, left: x }) => (
          <span key={at} style={{ left: x }} />
        ))}
      </div>
    </>
  )
}
