import { Link } from "@tanstack/react-router"
import { type ReactElement, useMemo } from "react"
import type { Schedule } from "../../api/types.ts"
import { clockText, dayText, WEEKDAYS } from "../../format/time.ts"
import { weekDays } from "./calendar.ts"

/** The next seven days with their ticks. */
export const WeekCalendar = ({ schedules, from }: { schedules: readonly Schedule[]; from: number }): ReactElement => {
  const days = useMemo(() => weekDays(schedules, from), [schedules, from])
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label="Calendar of the next seven days">
      <ol className="week">
        {days.map((day) => (
          <li key={day.start} className="week-day">
            <h3>
              {WEEKDAYS[new Date(day.start).getDay()]} <span className="soft">{dayText(day.start, from)}</span>
            </h3>
            {day.entries.length === 0 ? <p className="faint small">nothing</p> : null}
            <ul>
              {day.entries.map((entry) => (
                <li key={`${entry.id}-${entry.first}`} className="week-entry">
                  <Link to="/workflows/$name" params={{ name: entry.workflow }} className="clip">
                    {entry.workflow}
                  </Link>
                  <span className="soft small number">
                    {clockText(entry.first)}
                    {entry.count === 1 ? null : ` and on, ${entry.guessed ? "about " : ""}${entry.count}×`}
                  </span>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
    </div>
  )
}
