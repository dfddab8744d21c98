import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import { schedulesQuery } from "../../api/queries.ts"
import type { Schedule, Workflow } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { Facts } from "../../components/facts.tsx"
import { Empty, Loaded } from "../../components/states.tsx"
import { ExactTime, Time } from "../../components/time.tsx"
import { durationText } from "../../format/time.ts"

export const WorkflowSchedules = ({ workflow: { name, triggers } }: { workflow: Workflow }): ReactElement => {
  const query = useQuery(schedulesQuery({ workflow: name }))
  return (
    <div className="stack">
      {triggers.map((trigger) => (
        <TriggerCard key={trigger.path ?? trigger.after?.join()} trigger={trigger} />
      ))}
      <Loaded query={query} what="Loading the schedules">
        {(schedules) =>
          schedules.length + triggers.length === 0 ? (
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

const TriggerCard = ({ trigger }: { trigger: Workflow["triggers"][number] }): ReactElement => (
  <section className="card" aria-label={`Trigger ${triggerText(trigger)}`}>
    <header className="card-head">
      <h2>{triggerText(trigger)}</h2>
    </header>
    <div className="card-body stack">
      {trigger.after === null ? (
        <p className="soft">Looks every {durationText((trigger.every_seconds ?? 0) * 1000)}</p>
      ) : (
        <ul>
          {trigger.after.map((name) => (
            <li key={name}>
              <Link to="/workflows/$name" params={{ name }}>
                {name}
              </Link>
            </li>
          ))}
        </ul>
      )}
      {trigger.problem === null ? null : <p className="error-line">No run was created: {trigger.problem}</p>}
    </div>
  </section>
)

const triggerText = ({ after, when, path }: Workflow["triggers"][number]): string => {
  if (after === null) return `For each new file ${path ?? ""}`
  return `After the success of ${after.length === 1 ? "a workflow" : `${when ?? "all"} of these workflows`}`
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
