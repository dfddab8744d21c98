import { Link } from "@tanstack/react-router"
import { type ReactElement, useMemo } from "react"
import type { Schedule } from "../../api/types.ts"
import { Empty } from "../../components/states.tsx"
import { clockText, durationText, plural } from "../../format/time.ts"
import { type DayRow, dayRows, hourLines } from "./calendar.ts"

const percent = (part: number): string => `${(100 * part).toFixed(2)}%`

/** The next 24 hours: a row per schedule, a mark per tick, a band for frequent ticks. */
export const DayCalendar = ({ schedules, from }: { schedules: readonly Schedule[]; from: number }): ReactElement => {
  const rows = useMemo(() => dayRows(schedules, from), [schedules, from])
  const lines = hourLines(from)
  if (rows.length === 0) return <Empty title="No schedule fires in the next 24 hours" icon="calendar" />
  return (
    <div className="day table-frame" tabIndex={0} role="region" aria-label="Calendar of the next 24 hours">
      <div className="day-grid">
        <div className="day-head" aria-hidden="true">
          {lines
            .filter((line) => line.named)
            .map((line) => (
              <span key={line.at} className="day-hour" style={{ left: percent(line.left) }}>
                {clockText(line.at)}
              </span>
            ))}
        </div>
        <ul>
          {rows.map((row) => (
            <li key={row.id} className={row.paused ? "day-row day-paused" : "day-row"}>
              <Link to="/workflows/$name" params={{ name: row.workflow }} className="day-name clip">
                {row.workflow}
              </Link>
              <span className="hidden">{summaryOf(row)}</span>
              <div className="day-line" aria-hidden="true">
                {lines.map((line) => (
                  <span
                    key={line.at}
                    className={line.named ? "day-rule day-rule-named" : "day-rule"}
                    style={{ left: percent(line.left) }}
                  />
                ))}
                {row.band === null ? null : (
                  <span
                    className="day-band"
                    title={`every ${durationText(row.band.everyMs)}`}
                    style={{ left: percent(row.band.left), width: percent(row.band.width) }}
                  >
                    every {durationText(row.band.everyMs)}
                  </span>
                )}
                {row.marks.map((mark) => (
                  <span key={mark.at} className="day-mark" title={clockText(mark.at)} style={{ left: percent(mark.left) }} />
                ))}
              </div>
            </li>
          ))}
        </ul>
      </div>
    </div>
  )
}

const summaryOf = (row: DayRow): string => {
  if (row.paused) return "paused"
  if (row.band !== null) return `every ${durationText(row.band.everyMs)}`
  const times = row.marks.map((mark) => clockText(mark.at))
  return times.length > 6 ? `${plural(times.length, "time")}, next at ${times[0]!}` : `at ${times.join(", ")}`
}
