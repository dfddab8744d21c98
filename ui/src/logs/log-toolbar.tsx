// The toolbar of a log: search, first error, wrap, times, start and end, download.

import type { KeyboardEvent, ReactElement } from "react"
import { Button, buttonClass, IconButton } from "../components/button.tsx"
import { Icon } from "../components/icon.tsx"
import { useShortcut } from "../keyboard/use-shortcuts.ts"
import type { LogSearch } from "./use-log-search.ts"

export interface LogToolbarProps {
  search: LogSearch
  wrap: boolean
  times: boolean
  finding: boolean
  download: { href: string; name: string }
  onWrap: () => void
  onTimes: () => void
  onError: () => void
}

export const LogToolbar = (props: LogToolbarProps): ReactElement => {
  const { search, wrap, times, finding, download, onWrap, onTimes, onError } = props
  useShortcut("e", "First error of the log", onError)
  useShortcut("n", "Next match", () => search.go(1))
  useShortcut("N", "Previous match", () => search.go(-1))
  useShortcut("w", "Wrap the lines of the log", onWrap)
  useShortcut("t", "Times of the log", onTimes)
  return (
    <div className="log-tools" role="toolbar" aria-label="Log">
      <Search search={search} />
      <Button kind="quiet" icon="warning" busy={finding} onClick={onError}>
        First error
      </Button>
      <Button kind="quiet" aria-pressed={wrap} onClick={onWrap}>
        Wrap
      </Button>
      <Button kind="quiet" aria-pressed={times} onClick={onTimes}>
        Times
      </Button>
      <a className={buttonClass("quiet")} href={download.href} download={download.name}>
        <Icon name="download" />
        Download
      </a>
    </div>
  )
}

const Search = ({ search }: { search: LogSearch }): ReactElement => {
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "Enter") return
    event.preventDefault()
    search.go(event.shiftKey ? -1 : 1)
  }
  const none = search.scan === null || search.scan.found.length === 0
  return (
    <div className="log-search">
      <label className="search">
        <Icon name="search" />
        <span className="hidden">Search the log</span>
        <input
          type="search"
          className="input"
          placeholder="Search the log"
          value={search.text}
          data-search=""
          onChange={(event) => search.setText(event.target.value)}
          onKeyDown={key}
        />
        <kbd aria-hidden="true">/</kbd>
      </label>
      <span className="log-found" role="status">
        {foundText(search)}
      </span>
      <IconButton label="Previous match" icon="up" disabled={none} onClick={() => search.go(-1)} />
      <IconButton label="Next match" icon="down" disabled={none} onClick={() => search.go(1)} />
    </div>
  )
}

const foundText = ({ scan, at, text }: LogSearch): string => {
  if (scan === null) return text.trim() === "" ? "" : "…"
  const count = scan.found.length
  const going = scan.done ? "" : ` · ${scan.size === 0 ? 0 : Math.floor((100 * scan.at) / scan.size)} %`
  if (count === 0) return scan.done ? "not found" : `…${going}`
  return `${at === -1 ? "" : `${(at + 1).toLocaleString("en")} of `}${count.toLocaleString("en")}${scan.more ? "+" : ""}${going}`
}
