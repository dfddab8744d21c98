// The visible lines of a log: opens at the wanted line, follows new lines while the end is visible, and loads more lines near both ends.

import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual"
import { type RefObject, useCallback, useEffect, useEffectEvent, useLayoutEffect, useRef } from "react"
import { lineAt } from "./log-window.ts"
import type { Log } from "./use-log.ts"

export interface LinesHandle {
  /** Returns false if the line is not loaded. */
  scrollTo(offset: number): boolean
}

const ROW = 20
/** More lines are loaded when at most this many are left. */
const AHEAD = 200

export interface FollowingLinesOptions {
  ref: RefObject<LinesHandle | null>
  log: Log
  element: RefObject<HTMLDivElement | null>
  wrap: boolean
}

export const useFollowingLines = ({
  ref,
  log: { snapshot, window },
  element,
  wrap,
}: FollowingLinesOptions): Virtualizer<HTMLDivElement, Element> => {
  const { lines } = snapshot
  const shownFor = useRef(-1)
  const atEnd = useRef(true)
  const virtualizer = useVirtualizer({
    count: lines.length,
    getScrollElement: () => element.current,
    estimateSize: () => ROW,
    getItemKey: useCallback((i: number) => lines[i]?.offset ?? i, [lines]),
    overscan: 20,
    anchorTo: "end",
    // Follow only new log output, not older lines that were loaded.
    followOnAppend: atEnd.current,
    scrollEndThreshold: ROW,
  })
  useEffect(() => {
    atEnd.current = snapshot.end >= snapshot.size
  }, [snapshot])
  useLayoutEffect(() => virtualizer.measure(), [wrap, virtualizer])

  const scrollTo = (offset: number): boolean => {
    const index = lineAt(snapshot.lines, offset)
    if (index !== -1) virtualizer.scrollToIndex(index, { align: "center" })
    return index !== -1
  }
  useEffect(() => {
    ref.current = { scrollTo }
    return () => {
      ref.current = null
    }
  })
  const show = useEffectEvent(() => {
    if (snapshot.target === null) virtualizer.scrollToIndex(lines.length - 1, { align: "end" })
    else if (!scrollTo(snapshot.target)) virtualizer.scrollToIndex(0, { align: "start" })
    shownFor.current = snapshot.opened
  })
  useEffect(() => show(), [snapshot.opened])

  const items = virtualizer.getVirtualItems()
  const first = items[0]?.index ?? 0
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (shownFor.current !== snapshot.opened) return
    if (last >= lines.length - 1) {
      if (snapshot.end >= snapshot.size) window.following = true
    } else if (virtualizer.scrollDirection === "backward") window.following = false
    if (first < AHEAD) void window.more("before")
    if (last > lines.length - AHEAD) void window.more("after")
  }, [first, last, lines.length, snapshot, virtualizer, window])
  return virtualizer
}
