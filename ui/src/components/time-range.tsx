import type { ReactElement } from "react"

/** Formats an instant as `2026-11-15T06:00` in the user's time zone, as the control expects it. */
const localText = (iso: string): string => {
  const date = new Date(iso)
  if (Number.isNaN(date.getTime())) return ""
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const isoText = (local: string): string | undefined => (local === "" ? undefined : new Date(local).toISOString())

/** Controls for the start and the end of a range in the user's time zone; the address contains instants. */
export const TimeRange = ({
  after,
  before,
  onChange,
}: {
  after: string | undefined
  before: string | undefined
  onChange: (range: { after?: string | undefined; before?: string | undefined }) => void
}): ReactElement => (
  <>
    <label className="filter">
      <span className="filter-label">Created from</span>
      <input
        className="input"
        type="datetime-local"
        value={after === undefined ? "" : localText(after)}
        onChange={(event) => onChange({ after: isoText(event.target.value), before })}
      />
    </label>
    <label className="filter">
      <span className="filter-label">Created before</span>
      <input
        className="input"
        type="datetime-local"
        value={before === undefined ? "" : localText(before)}
        onChange={(event) => onChange({ after, before: isoText(event.target.value) })}
      />
    </label>
  </>
)
