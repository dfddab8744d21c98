// Light or dark theme: the system's setting unless the user chose another one.

import { useSyncExternalStore } from "react"

export type Theme = "system" | "light" | "dark"

const KEY = "ork-theme"
const listeners = new Set<() => void>()

const read = (): Theme => {
  const kept = localStorage.getItem(KEY)
  return kept === "light" || kept === "dark" ? kept : "system"
}

/** Applies the theme before the first render. */
export const applyTheme = (theme: Theme = read()): void => {
  if (theme === "system") delete document.documentElement.dataset["theme"]
  else document.documentElement.dataset["theme"] = theme
}

export const setTheme = (theme: Theme): void => {
  if (theme === "system") localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  applyTheme(theme)
  for (const listener of listeners) listener()
}

export const useTheme = (): Theme =>
  useSyncExternalStore((listener) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, read)

/** Returns whether the dark theme is active, for drawing on a canvas. */
export const useDark = (): boolean => {
  const theme = useTheme()
  const system = useSyncExternalStore(
    (listener) => {
      const query = matchMedia("(prefers-color-scheme: dark)")
      query.addEventListener("change", listener)
      return () => query.removeEventListener("change", listener)
    },
    () => matchMedia("(prefers-color-scheme: dark)").matches,
  )
  return theme === "system" ? system : theme === "dark"
}
