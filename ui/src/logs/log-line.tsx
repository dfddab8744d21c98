// One line of a log: number, time, stream and text. Nothing parses the text as HTML.

import { memo, type ReactElement } from "react"
import { absoluteTime, clockText } from "../format/time.ts"
import { type Colour, paletteColour, parseAnsi, type Style } from "./ansi.ts"
import { highlight, type Marked } from "./highlight.ts"
import type { Line, Written } from "./lines.ts"

/** Longest shown text of a line; the download contains the rest. */
const MAX_CHARACTERS = 5000

export interface LogLineProps {
  line: Line
  number: number | null
  written: Written | null
  times: boolean
  wanted: string
  current: boolean
}

export const LogLine = memo(function LogLine({ line, number, written, times, wanted, current }: LogLineProps): ReactElement {
  const cut = line.text.length > MAX_CHARACTERS
  const { spans } = parseAnsi(cut ? line.text.slice(0, MAX_CHARACTERS) : line.text, line.style)
  const stderr = written?.stream === "stderr"
  return (
    <div className={`log-line${stderr ? " log-stderr" : ""}${current ? " log-current" : ""}`}>
      {number === null ? null : <span className="log-number">{number}</span>}
      {times ? <LineTime written={written} /> : null}
      <span className="log-stream" title={stderr ? "stderr" : undefined}>
        {stderr ? "E" : ""}
      </span>
      <span className="log-text">
        {highlight(spans, wanted).map((span, i) => (
          <SpanText key={i} span={span} />
        ))}
        {cut ? (
          <span className="log-more"> … {(line.text.length - MAX_CHARACTERS).toLocaleString("en")} more characters</span>
        ) : null}
      </span>
    </div>
  )
})

const LineTime = ({ written }: { written: Written | null }): ReactElement => {
  if (written === null) return <span className="log-time" />
  const at = Date.parse(written.at)
  return (
    <time className="log-time" dateTime={written.at} title={absoluteTime(at)}>
      {clockText(at, true)}.{String(at % 1000).padStart(3, "0")}
    </time>
  )
}

const SpanText = ({ span: { text, style, hit } }: { span: Marked }): ReactElement | string => {
  const { className, css } = lookOf(style)
  const inner = hit ? <mark className="log-hit">{text}</mark> : text
  return className === "" && css === undefined ? (
    <>{inner}</>
  ) : (
    <span className={className} style={css}>
      {inner}
    </span>
  )
}

const FLAGS = ["bold", "dim", "italic", "underline", "strike"] as const

/**
 * Returns the look of a style. The first 16 colours belong to the theme; the lightness of the others follows the theme unless they have
 * their own background.
 */
const lookOf = (style: Style): { className: string; css: Readonly<Record<string, string>> | undefined } => {
  const classes: string[] = FLAGS.filter((flag) => style[flag] === true).map((flag) => `ansi-${flag}`)
  const [fg, bg] = style.inverse === true ? [style.bg ?? "ground", style.fg ?? "ink"] : [style.fg, style.bg]
  const css: Record<string, string> = {}
  place(fg, "fg", classes, css)
  place(bg, "bg", classes, css)
  return { className: classes.join(" "), css: Object.keys(css).length === 0 ? undefined : css }
}

const place = (colour: Colour | undefined, what: "fg" | "bg", classes: string[], css: Record<string, string>): void => {
  if (colour === undefined) return
  if (colour === "ground" || colour === "ink") classes.push(`ansi-${what}-${colour}`)
  else if (typeof colour === "number" && colour < 16) classes.push(`ansi-${what}-${colour}`)
  else {
    classes.push(`ansi-${what}`)
    css[`--ansi-${what}`] = typeof colour === "number" ? paletteColour(colour) : colour
  }
}
