import { useQuery } from "@tanstack/react-query"
import type { ReactElement } from "react"
import { schedulesQuery } from "../../api/queries.ts"
import type { Schedule } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { Facts } from "../../components/facts.tsx"
import { Empty, Loaded } from "../../components/states.tsx"
import { ExactTime, Time } from "../../components/time.tsx"
import { durationText } from "../../format/time.ts"

export const WorkflowSchedules = ({ name }: { name: string }): ReactElement => {
  const query = useQuery(schedulesQuery({ workflow: name }))
  return (
    <div className="stack">
      <Loaded query={query} what="Loading the schedules">
        {(schedules) =>
          schedules.length === 0 ? (
            <div className="card">
              <Empty title="It has no schedule" icon="calendar">
                <p>
                  It runs when somebody triggers it. A line <code>schedule: &quot;0 2 * * *&quot;</code> in its definition runs
                  it every night.
                </p>
              </Empty>
            </div>
          ) : (
            schedules.map((schedule) => <ScheduleCard key={schedule.id} schedule={schedule} />)
          )
        }
      </Loaded>
    </div>
  )
}

const ScheduleCard = ({ schedule }: { schedule: Schedule }): ReactElement => (
  <section className="card" aria-label={`Schedule ${schedule.cron}`}>
    <header className="card-head">
      <h2 className="mono">{schedule.cron}</h2>
      <span className="soft">{schedule.timezone}</span>
      {schedule.paused ? <StatusBadge status="paused" /> : null}
    </header>
    <div className="card-body stack">
      <Facts
        facts={[
          ["Missed ticks", schedule.catchup],
          ["When one still runs", schedule.overlap],
          schedule.jitter_seconds === null ? null : ["Jitter", durationText(schedule.jitter_seconds * 1000)],
          schedule.start === null ? null : ["From", schedule.start],
          schedule.end === null ? null : ["Until", schedule.end],
          ["Last tick", <Time key="last" at={schedule.last_tick_at} none="none yet" />],
        ]}
      />
      <SkippedTicks ticks={schedule.skipped_ticks} />
      {schedule.next_ticks.length === 0 ? null : (
        <div>
          <h3>Next ticks</h3>
          <ol className="next-ticks">
            {schedule.next_ticks.map((at) => (
              <li key={at}>
                <ExactTime at={at} />
                <span className="soft">
                  <Time at={at} />
                </span>
              </li>
            ))}
          </ol>
        </div>
      )}
    </div>
  </section>
)

const SkippedTicks = ({ ticks }: { ticks: Schedule["skipped_ticks"] }): ReactElement | null =>
  ticks.length === 0 ? null : (
    <div>
      <h3>Skipped ticks</h3>
      <ol className="next-ticks">
        {ticks.map(({ tick, reason }) => (
          <li key={tick}>
            <ExactTime at={tick} />
            <span className="soft">{reason}</span>
          </li>
        ))}
      </ol>
    </div>
  )
