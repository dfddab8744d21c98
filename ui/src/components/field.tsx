import { type ReactElement, type ReactNode, useId } from "react"

export interface FieldNames {
  id: string
  "aria-describedby": string | undefined
  "aria-invalid": true | undefined
}

/** A label with its control, description and error. */
export const Field = ({
  label,
  hint,
  problem,
  required = false,
  hideLabel = false,
  children,
}: {
  label: ReactNode
  /** Hides the label visually, where a heading shows the same text. */
  hideLabel?: boolean
  hint?: ReactNode
  problem?: string | null
  required?: boolean
  children: (names: FieldNames) => ReactNode
}): ReactElement => {
  const id = useId()
  const hasHint = hint !== undefined && hint !== null && hint !== ""
  const hasProblem = problem !== undefined && problem !== null
  const about = [hasHint ? `${id}-hint` : null, hasProblem ? `${id}-problem` : null].filter((each) => each !== null)
  return (
    <div className={hasProblem ? "field field-wrong" : "field"}>
      <label htmlFor={id} className={hideLabel ? "hidden" : "field-label"}>
        {label}
        {required ? <span className="field-required">required</span> : null}
      </label>
      {children({
        id,
        "aria-describedby": about.length === 0 ? undefined : about.join(" "),
        "aria-invalid": hasProblem ? true : undefined,
      })}
      {hasHint ? (
        <p id={`${id}-hint`} className="field-hint">
          {hint}
        </p>
      ) : null}
      {hasProblem ? (
        <p id={`${id}-problem`} className="field-problem">
          {problem}
        </p>
      ) : null}
    </div>
  )
}

/** A filter with fixed choices; the empty choice means all. */
export const SelectFilter = ({
  label,
  value,
  all,
  choices,
  onChange,
}: {
  label: string
  value: string | undefined
  all: string
  choices: readonly { value: string; text: string }[]
  onChange: (value: string | undefined) => void
}): ReactElement => (
  <label className="filter">
    <span className="filter-label">{label}</span>
    <select
      className="input"
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
    >
      <option value="">{all}</option>
      {choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {choice.text}
        </option>
      ))}
    </select>
  </label>
)
