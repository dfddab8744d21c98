// The log viewer: opens at the end, follows a growing log, and reaches any part by scrolling, searching or jumping.

import "../styles/logs.css"
import { type ReactElement, useRef, useState } from "react"
import { Loading, ProblemState } from "../components/states.tsx"
import { showMessage, showProblem } from "../components/toast.tsx"
import { LogFoot } from "./log-foot.tsx"
import { LogLines } from "./log-lines.tsx"
import { downloadUrl, type LogAddress } from "./log-port.ts"
import { LogToolbar } from "./log-toolbar.tsx"
import { firstError, landmarkBefore } from "./scan.ts"
import type { LinesHandle } from "./use-following-lines.ts"
import { useLog } from "./use-log.ts"
import { useLogSearch } from "./use-log-search.ts"

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
  const lines = useRef<LinesHandle>(null)
  const go = (offset: number): void => {
    setCurrent(offset)
    if (lines.current?.scrollTo(offset) === true) return
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
        <LogLines ref={lines} {...{ log, label, wrap, times, search, current }} />
      )}
      <LogFoot log={log} live={live} />
    </section>
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
