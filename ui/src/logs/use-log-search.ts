// Searches a whole log while the user types, and steps through the matches.

import { useEffect, useEffectEvent, useState } from "react"
import type { LogPort } from "./log-port.ts"
import { nextFound, type Scan, searchLog } from "./scan.ts"

/** Delay after the last keystroke before the search starts, in milliseconds. */
const DEBOUNCE_MS = 250

export interface LogSearch {
  text: string
  setText: (text: string) => void
  /** null without a search. */
  scan: Scan | null
  /** Index of the current match; -1 for none. */
  at: number
  go: (by: 1 | -1) => void
}

/** The matches of one text in one log. */
interface Held {
  port: LogPort
  wanted: string
  scan: Scan
  current: number | null
}

export const useLogSearch = (port: LogPort, onGo: (offset: number) => void): LogSearch => {
  const [text, setText] = useState("")
  const [held, setHeld] = useState<Held | null>(null)
  const wanted = text.trim()
  const show = useEffectEvent(onGo)
  useEffect(() => {
    if (wanted === "") return
    const stop = new AbortController()
    let current: number | null = null
    const tell = (scan: Scan): void => {
      if (stop.signal.aborted) return
      const [first] = scan.found
      const arrives = current === null && first !== undefined
      if (arrives) current = first.offset
      setHeld((last) => ({ port, wanted, scan, current: arrives || last === null ? current : last.current }))
      if (arrives) show(first.offset)
    }
    const search = (): void => {
      // A search that the network interrupts keeps its matches.
      searchLog(port, wanted, stop.signal, tell).catch(() => {
        if (!stop.signal.aborted) setHeld((last) => last && { ...last, scan: { ...last.scan, done: true, more: true } })
      })
    }
    const timer = setTimeout(search, DEBOUNCE_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [port, wanted])
  const mine = held !== null && held.port === port && held.wanted === wanted ? held : null
  const found = mine?.scan.found ?? []
  const go = (by: 1 | -1): void => {
    const next = found[nextFound(found, mine?.current ?? null, by)]
    if (mine === null || next === undefined) return
    setHeld({ ...mine, current: next.offset })
    onGo(next.offset)
  }
  const at = found.findIndex((each) => each.offset === mine?.current)
  return { text, setText, scan: mine?.scan ?? null, at, go }
}
