import type { ReactElement } from "react"

/** `2026-11-15T06:00` in the reader's zone, as the control has it. */
const localText = (iso: string): string => {
  const date = new Date(iso)
  if (Number.isNaN(date.getTime())) return ""
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const isoText = (local: string): string | undefined => (local === "" ? undefined : new Date(local).toISOString())

/** From and to, in the reader's zone; the address holds instants. */
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
