import { type ReactElement, useEffect, useEffectEvent, useId, useState } from "react"
import { Icon } from "./icon.tsx"

/** Delay after the last keystroke before the text is applied, in milliseconds. */
const DEBOUNCE_MS = 200

/** A search field. The shortcut `/` focuses it (found by its attribute). */
export const SearchBox = ({
  label,
  value,
  choices = [],
  onChange,
}: {
  label: string
  value: string | undefined
  /** Suggestions while typing; other text is allowed. */
  choices?: readonly string[]
  onChange: (value: string | undefined) => void
}): ReactElement => {
  const list = useId()
  const [text, setText] = useState(value ?? "")
  const [seen, setSeen] = useState(value)
  if (seen !== value) {
    setSeen(value)
    setText(value ?? "")
  }
  const take = useEffectEvent((typed: string) => {
    if (typed.trim() !== (value ?? "")) onChange(typed.trim() === "" ? undefined : typed.trim())
  })
  useEffect(() => {
    const timer = setTimeout(() => take(text), DEBOUNCE_MS)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <label className="search">
      <Icon name="search" />
      <span className="hidden">{label}</span>
      <input
        type="search"
        className="input"
        placeholder={label}
        value={text}
        data-search=""
        autoComplete="off"
        {...(choices.length > 0 && { list })}
        onChange={(event) => setText(event.target.value)}
      />
      {choices.length === 0 ? null : (
        <datalist id={list}>
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </datalist>
      )}
      <kbd aria-hidden="true">/</kbd>
    </label>
  )
}
