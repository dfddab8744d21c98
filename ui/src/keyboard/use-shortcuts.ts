// Keyboard shortcuts: components register them while mounted, one listener handles keys, the help dialog lists
// them. Keys in fields, in open dialogs and with modifiers are ignored.

import { useEffect, useEffectEvent, useSyncExternalStore } from "react"
import { move, NOTHING, press, type Sequence } from "./keys.ts"

export interface Shortcut {
  keys: Sequence
  text: string
  run: () => void
}

let registered: readonly Shortcut[] = []
const listeners = new Set<() => void>()

const set = (next: readonly Shortcut[]): void => {
  registered = next
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export const useRegistered = (): readonly Shortcut[] => useSyncExternalStore(subscribe, () => registered)

/** Registers keys (separated by spaces: `g w`) while the component is mounted. The newest registration wins. */
export const useShortcut = (keys: string, text: string, run: () => void): void => {
  const latest = useEffectEvent(run)
  useEffect(() => {
    const shortcut: Shortcut = { keys: keys.split(" "), text, run: () => latest() }
    set([shortcut, ...registered])
    return () => set(registered.filter((each) => each !== shortcut))
  }, [keys, text])
}

const TYPING = "input, textarea, select, [contenteditable='true']"
const BUSY = "[role='dialog'], [role='alertdialog'], [role='menu']"

/** Installs the listener; called once by the shell. */
export const useKeyboard = (): void => {
  useEffect(() => {
    let pressed = NOTHING
    const hear = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
      const target = event.target as Element
      if (target.closest(TYPING) !== null) {
        if (event.key === "Escape") (target as HTMLElement).blur()
        return
      }
      if (document.querySelector(BUSY) !== null) return
      const step = press(
        pressed,
        event.key,
        event.timeStamp,
        registered.map((each) => each.keys),
      )
      pressed = "pressed" in step ? step.pressed : NOTHING
      if (!("matched" in step)) return
      event.preventDefault()
      registered[step.matched]!.run()
    }
    document.addEventListener("keydown", hear)
    return () => document.removeEventListener("keydown", hear)
  }, [])
}

/** Lets `j` and `k` move through the elements with `data-row`, by the link that opens each. */
export const useListKeys = (): void => {
  const go = (by: 1 | -1): void => {
    const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")]
    const here = rows.findIndex((row) => row.contains(document.activeElement))
    const row = rows[move(rows.length, here, by)]
    row?.querySelector<HTMLElement>("a.row-link")?.focus()
    row?.scrollIntoView({ block: "nearest" })
  }
  useShortcut("j", "Next entry of the list", () => go(1))
  useShortcut("k", "Entry before", () => go(-1))
}

export const focusSearch = (): void => document.querySelector<HTMLInputElement>("[data-search]")?.focus()
