import type { ReactElement } from "react"
import { absoluteTime, durationText, relativeTime } from "../format/time.ts"
import { runDuration, type RunTimes } from "../run/duration.ts"
import { useNowText } from "./now.ts"

/** A relative time, with the exact time in the user's time zone as its title. */
export const Time = ({ at, none = "–" }: { at: string | null; none?: string }): ReactElement => {
  const ms = at === null ? 0 : Date.parse(at)
  const text = useNowText((now) => relativeTime(ms, now), at !== null)
  if (at === null) return <span className="faint">{none}</span>
  return (
    <time dateTime={at} title={absoluteTime(ms)}>
      {text}
    </time>
  )
}

export const ExactTime = ({ at, none = "–" }: { at: string | null; none?: string }): ReactElement => {
  if (at === null) return <span className="faint">{none}</span>
  return (
    <time dateTime={at} className="number">
      {absoluteTime(Date.parse(at))}
    </time>
  )
}

/** The duration of a run, without the breaks before its retries. */
export const RunDuration = ({ run }: { run: RunTimes }): ReactElement => {
  const text = useNowText(
    (now) => {
      const ms = runDuration(run, now)
      return ms === null ? "–" : durationText(ms)
    },
    run.started_at !== null && run.finished_at === null,
  )
  return <span className={run.started_at === null ? "faint" : "number"}>{text}</span>
}

/** The duration from one instant to another, or to now while it lasts. */
export const Duration = ({ from, to }: { from: string | null; to: string | null }): ReactElement => {
  const start = from === null ? null : Date.parse(from)
  const text = useNowText(
    (now) => (start === null ? "–" : durationText((to === null ? Math.max(now, start) : Date.parse(to)) - start)),
    start !== null && to === null,
  )
  return <span className={start === null ? "faint" : "number"}>{text}</span>
}
