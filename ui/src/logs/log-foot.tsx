// The line below a log: its length and its loaded part, with links to other parts.

import { type ReactElement, useState } from "react"
import { shortBytes } from "../../../src/core/values/quantities.ts"
import { Button } from "../components/button.tsx"
import { plural } from "../format/time.ts"
import type { Log } from "./use-log.ts"

export const LogFoot = ({ log: { snapshot, window }, live }: { log: Log; live: boolean }): ReactElement | null => {
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
        <PositionSlider
          key={`${start}-${size}`}
          start={start}
          size={size}
          onChange={(offset) => void window.openNear(offset)}
        />
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
const PositionSlider = ({
  start,
  size,
  onChange,
}: {
  start: number
  size: number
  onChange: (offset: number) => void
}): ReactElement => {
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
      onPointerUp={() => onChange(Math.floor((size * value) / STEPS))}
      onKeyUp={() => onChange(Math.floor((size * value) / STEPS))}
    />
  )
}
