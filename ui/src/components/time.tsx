import type { ReactElement } from "react"
import { absoluteTime, durationText, relativeTime } from "../format/time.ts"
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

/** The duration from one instant to another, or to now while it lasts. */
export const Duration = ({ from, to }: { from: string | null; to: string | null }): ReactElement => {
  const start = from === null ? null : Date.parse(from)
  const text = useNowText(
    (now) => (start === null ? "–" : durationText((to === null ? Math.max(now, start) : Date.parse(to)) - start)),
    start !== null && to === null,
  )
  return <span className={start === null ? "faint" : "number"}>{text}</span>
}
