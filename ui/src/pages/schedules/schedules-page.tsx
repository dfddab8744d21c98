// The schedules page: the next day, the next week, and every schedule with its pause switch.

import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { type ReactElement, useState } from "react"
import { schedulesQuery } from "../../api/queries.ts"
import type { Schedule } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { PageHead } from "../../components/page-head.tsx"
import { Empty, Loaded } from "../../components/states.tsx"
import { Time } from "../../components/time.tsx"
import { useListKeys } from "../../keyboard/use-shortcuts.ts"
import { PauseSwitch } from "../workflows/pause-switch.tsx"
import { TICKS_ASKED } from "./calendar.ts"
import { DayCalendar } from "./day-calendar.tsx"
import { WeekCalendar } from "./week-calendar.tsx"
import { Table } from "../../components/table.tsx"

const COLUMNS = [
  "Workflow",
  "Cron",
  "Zone",
  "Next tick",
  { text: "Last tick", className: "wide" },
  { text: "Missed ticks", className: "roomy" },
  { text: "Overlap", className: "roomy" },
  "Active",
]

const route = getRouteApi("/shell/schedules")

export const SchedulesPage = (): ReactElement => {
  const { view = "day" } = route.useSearch()
  const query = useQuery({ ...schedulesQuery({ ticks: TICKS_ASKED }), refetchInterval: 60_000 })
  // The calendar updates every minute, not every second.
  const [now] = useState(() => Date.now())
  useListKeys()
  return (
    <div className="page">
      <PageHead title="Schedules" />
      <Loaded query={query} what="Loading the schedules">
        {(schedules) =>
          schedules.length === 0 ? (
            <div className="card">
              <Empty title="No workflow has a schedule" icon="calendar">
                <p>
                  A line <code>schedule: &quot;0 2 * * *&quot;</code> in a definition runs it every night at two.
                </p>
              </Empty>
            </div>
          ) : (
            <>
              <section className="card" aria-labelledby="calendar-title">
                <header className="card-head">
                  <h2 id="calendar-title">{view === "day" ? "The next 24 hours" : "The next seven days"}</h2>
                  <nav className="choice" aria-label="Range of the calendar">
                    <Link to="." search={{ view: "day" }} aria-current={view === "day" ? "page" : undefined}>
                      Day
                    </Link>
                    <Link to="." search={{ view: "week" }} aria-current={view === "week" ? "page" : undefined}>
                      Week
                    </Link>
                  </nav>
                </header>
                {view === "day" ? (
                  <DayCalendar schedules={schedules} from={now} />
                ) : (
                  <WeekCalendar schedules={schedules} from={now} />
                )}
              </section>
              <ScheduleTable schedules={schedules} />
            </>
          )
        }
      </Loaded>
    </div>
  )
}

const ScheduleTable = ({ schedules }: { schedules: readonly Schedule[] }): ReactElement => (
  <section className="card table-frame" aria-label="All schedules">
    <Table columns={COLUMNS}>
      {schedules.map((schedule) => (
        <tr key={schedule.id} data-row="">
          <td>
            <Link to="/workflows/$name" params={{ name: schedule.workflow }} search={{ tab: "schedules" }} className="row-link">
              {schedule.workflow}
            </Link>
          </td>
          <td className="fit mono">{schedule.cron}</td>
          <td className="fit soft">{schedule.timezone}</td>
          <td className="fit">
            {schedule.paused ? <StatusBadge status="paused" /> : <Time at={schedule.next_ticks[0] ?? null} none="none" />}
          </td>
          <td className="fit soft wide">
            <Time at={schedule.last_tick_at} none="none yet" />
          </td>
          <td className="fit soft roomy">{schedule.catchup}</td>
          <td className="fit soft roomy">{schedule.overlap}</td>
          <td className="fit">
            <PauseSwitch workflow={{ name: schedule.workflow, paused: schedule.paused, schedules: [schedule], triggers: [] }} />
          </td>
        </tr>
      ))}
    </Table>
  </section>
)
