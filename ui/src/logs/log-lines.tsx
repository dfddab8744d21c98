// The visible lines of a log.

import { type ReactElement, type RefObject, useRef } from "react"
import { LogLine } from "./log-line.tsx"
import { writtenOf } from "./log-window.ts"
import type { Log } from "./use-log.ts"
import { type LinesHandle, useFollowingLines } from "./use-following-lines.ts"
import type { LogSearch } from "./use-log-search.ts"

interface LinesProps {
  ref: RefObject<LinesHandle | null>
  log: Log
  label: string
  wrap: boolean
  times: boolean
  search: LogSearch
  current: number | null
}

export const LogLines = ({ ref, log, label, wrap, times, search, current }: LinesProps): ReactElement => {
  const { lines, firstNumber } = log.snapshot
  const element = useRef<HTMLDivElement>(null)
  const virtualizer = useFollowingLines({ ref, log, element, wrap })
  const items = virtualizer.getVirtualItems()
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
                  written={writtenOf(log.snapshot, line)}
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
