import { type ReactElement, useEffect, useEffectEvent, useState } from "react"
import { Icon } from "./icon.tsx"

/** What is typed is taken over once the typing rests. */
const REST_MS = 200

/** A search field; `/` goes there from anywhere on the page (it is found by its attribute). */
export const SearchBox = ({
  label,
  value,
  onChange,
}: {
  label: string
  value: string | undefined
  onChange: (value: string | undefined) => void
}): ReactElement => {
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
    const timer = setTimeout(() => take(text), REST_MS)
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
        onChange={(event) => setText(event.target.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  )
}
