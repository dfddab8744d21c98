import { type ReactElement, useId, useState } from "react"

export interface Choice {
  value: string
  text: string
}

/** Above this number of choices the picker is a text field. */
const MAX_OPTIONS = 200
const MAX_SUGGESTED = 100

interface PickerProps {
  label: string
  value: string
  choices: readonly Choice[]
  onChange: (value: string) => void
}

/** A picker for one of many choices. */
export const Picker = (props: PickerProps): ReactElement => {
  const { label, value, choices, onChange } = props
  if (choices.length > MAX_OPTIONS) return <TypedPicker key={value} {...props} />
  return (
    <label className="filter">
      <span className="filter-label">{label}</span>
      <select className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.text}
          </option>
        ))}
      </select>
    </label>
  )
}

const TypedPicker = ({ label, value, choices, onChange }: PickerProps): ReactElement => {
  const id = useId()
  const [text, setText] = useState(value)
  const take = (typed: string): void => {
    setText(typed)
    if (typed !== value && choices.some((choice) => choice.value === typed)) onChange(typed)
  }
  const fit = choices.filter((choice) => choice.text.includes(text === value ? "" : text)).slice(0, MAX_SUGGESTED)
  return (
    <label className="filter">
      <span className="filter-label">{label}</span>
      <input
        className="input"
        list={id}
        value={text}
        onChange={(event) => take(event.target.value)}
        onBlur={() => setText(value)}
      />
      <datalist id={id}>
        {fit.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.text}
          </option>
        ))}
      </datalist>
    </label>
  )
}
