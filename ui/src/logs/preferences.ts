// The user's log preferences, stored in the browser.

import { useState } from "react"

export type LogPreference = "wrap" | "times"

const keyOf = (name: LogPreference): string => `ork-log-${name}`

export const useLogPreference = (name: LogPreference): readonly [boolean, () => void] => {
  const [on, setOn] = useState(() => localStorage.getItem(keyOf(name)) === "1")
  const toggle = (): void => {
    localStorage.setItem(keyOf(name), on ? "0" : "1")
    setOn(!on)
  }
  return [on, toggle]
}
