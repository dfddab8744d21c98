// The log viewer: opens at the end, follows a growing log, and reaches any part by scrolling, searching or jumping.

import "../styles/logs.css"
import { type ReactElement, useCallback, useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from "react"
import { useVirtualizer } from "@tanstack/react-virtual"
import { Button } from "../components/button.tsx"
import { shortBytes } from "../../../src/core/values/quantities.ts"
import { Loading, ProblemState } from "../components/states.tsx"
import { showMessage, showProblem } from "../components/toast.tsx"
import { plural } from "../format/time.ts"
import { LogLine } from "./log-line.tsx"
import { downloadUrl, type LogAddress } from "./log-port.ts"
import { type Snapshot, writtenOf } from "./log-window.ts"
import { LogToolbar } from "./log-toolbar.tsx"
import { firstError, landmarkBefore } from "./scan.ts"
import { type Log, useLog } from "./use-log.ts"
import { type LogSearch, useLogSearch } from "./use-log-search.ts"

export interface LogViewProps {
  address: LogAddress
  /** The attempt is unfinished. */
  live: boolean
  /** `Log of load[3]` */
  label: string
  fileName: string
  /** Renders with less height, inside another element. */
  small?: boolean
}

export const LogView = ({ address, live, label, fileName, small = false }: LogViewProps): ReactElement => {
  const log = useLog(address, live)
  const [current, setCurrent] = useState<number | null>(null)
  const [wrap, toggleWrap] = useLogPreference("wrap")
  const [times, toggleTimes] = useLogPreference("times")
  const [finding, setFinding] = useState(false)
  const frame = useRef<FrameHandle>(null)
  const go = (offset: number): void => {
    setCurrent(offset)
    if (frame.current?.scrollTo(offset) === true) return
    void log.window.openAt(offset, landmarkBefore(log.port, offset))
  }
  const search = useLogSearch(log.port, go)
  const findError = async (): Promise<void> => {
    setFinding(true)
    try {
      const found = await firstError(log.port, new AbortController().signal)
      if (found === null) showMessage("No line in this log mentions an error")
      else go(found.offset)
    } catch (error) {
      showProblem("Could not search the log", error)
    } finally {
      setFinding(false)
    }
  }
  const { snapshot } = log
  return (
    <section className={small ? "log log-small" : "log"} aria-label={label}>
      <LogToolbar
        search={search}
        wrap={wrap}
        times={times}
        finding={finding}
        download={{ href: downloadUrl(address), name: fileName }}
        onWrap={toggleWrap}
        onTimes={toggleTimes}
        onError={() => void findError()}
      />
      {snapshot.error !== null && snapshot.lines.length === 0 ? (
        <ProblemState error={snapshot.error} retry={() => void log.window.poll()} />
      ) : snapshot.opening ? (
        <Loading what="Loading the log" />
      ) : snapshot.size === 0 ? (
        <p className="log-empty">{live ? "It has written nothing yet." : "It wrote nothing."}</p>
      ) : (
        <Frame ref={frame} {...{ log, label, wrap, times, search, current }} />
      )}
      <Foot log={log} live={live} />
    </section>
  )
}

interface FrameHandle {
  /** Returns false if the line is not loaded. */
  scrollTo(offset: number): boolean
}

interface FrameProps {
  ref: React.RefObject<FrameHandle | null>
  log: Log
  label: string
  wrap: boolean
  times: boolean
  search: LogSearch
  current: number | null
}

const ROW = 20
/** More lines are loaded when at most this many are left. */
const AHEAD = 200

const Frame = ({ ref, log, label, wrap, times, search, current }: FrameProps): ReactElement => {
  const { snapshot, window } = log
  const { lines, firstNumber } = snapshot
  const element = useRef<HTMLDivElement>(null)
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
    const index = indexOf(snapshot, offset)
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

  const width = firstNumber === null ? 0 : String(firstNumber + lines.length).length
  return (
    <div ref={element} className="log-frame" tabIndex={0} role="region" aria-label={`${label}, lines`}>
      <div className={wrap ? "log-all log-wrap" : "log-all"} style={{ height: virtualizer.getTotalSize() }}>
        <div
          className="log-shown"
          style={{ transform: `translateY(${items[0]?.start ?? 0}px)`, ["--digits" as string]: `${width}ch` }}
        >
          {items.map(({ index, key }) => {
            const line = lines[index]
            if (line === undefined) return null
            return (
              <div key={String(key)} data-index={index} ref={wrap ? virtualizer.measureElement : undefined}>
                <LogLine
                  line={line}
                  number={firstNumber === null ? null : firstNumber + index}
                  written={writtenOf(snapshot, line)}
                  times={times}
                  wanted={search.text.trim()}
                  current={line.offset === current}
                />
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}

/** Returns the index of the line at a byte offset; -1 if it is not loaded. */
const indexOf = ({ lines }: Snapshot, offset: number): number => {
  let [low, high] = [0, lines.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (lines[middle]!.offset < offset) low = middle + 1
    else high = middle
  }
  return lines[low]?.offset === offset ? low : -1
}

/** Shows the length of the log and its loaded part, with links to other parts. */
const Foot = ({ log: { snapshot, window }, live }: { log: Log; live: boolean }): ReactElement | null => {
  const { start, end, size, lines, firstNumber, opening } = snapshot
  if (opening || size === 0) return null
  const whole = start === 0 && end >= size
  return (
    <footer className="log-foot">
      <span>
        {whole
          ? `${plural(lines.length, "line")}, ${shortBytes(size)}`
          : `${shortBytes(start)} to ${shortBytes(end)} of ${shortBytes(size)}`}
        {!whole && firstNumber === null ? " · no line numbers: the lines before are not counted" : ""}
      </span>
      {live ? <span className="log-live">live</span> : null}
      {whole ? null : (
        <Place key={`${start}-${size}`} start={start} size={size} onPlace={(offset) => void window.openNear(offset)} />
      )}
      <Button kind="quiet" onClick={() => void window.openAt(0)}>
        Start
      </Button>
      <Button kind="quiet" onClick={() => void window.openEnd()}>
        End
      </Button>
    </footer>
  )
}

const STEPS = 1000

/** A slider to any part of a log that is not completely loaded. */
const Place = ({ start, size, onPlace }: { start: number; size: number; onPlace: (offset: number) => void }): ReactElement => {
  const [value, setValue] = useState(Math.round((STEPS * start) / size))
  return (
    <input
      type="range"
      className="log-place"
      aria-label="Position in the log"
      aria-valuetext={`${Math.round((100 * value) / STEPS)} %`}
      min={0}
      max={STEPS}
      value={value}
      onChange={(event) => setValue(Number(event.target.value))}
      onPointerUp={() => onPlace(Math.floor((size * value) / STEPS))}
      onKeyUp={() => onPlace(Math.floor((size * value) / STEPS))}
    />
  )
}

type LogPreference = "wrap" | "times"

const keyOf = (name: LogPreference): string => `ork-log-${name}`

const useLogPreference = (name: LogPreference): readonly [boolean, () => void] => {
  const [on, setOn] = useState(() => localStorage.getItem(keyOf(name)) === "1")
  const toggle = (): void => {
    localStorage.setItem(keyOf(name), on ? "0" : "1")
    setOn(!on)
  }
  return [on, toggle]
}
