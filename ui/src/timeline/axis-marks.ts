// The marks on the time axis: ticks and breaks of the visible part, in pixels. Pure.

import { stepFor, type Tick, ticksOf } from "./axis.ts"
import type { ScaledBreak, TimeScale } from "./scale.ts"

/** Width of the text of a break, and of a tick, in pixels. */
export const BREAK_WIDTH = 60
const TICK_WIDTH = 64

export interface AxisTick extends Tick {
  left: number
  /** The text of a break covers that of the tick. */
  covered: boolean
}

export interface AxisBreak extends ScaledBreak {
  left: number
  width: number
}

/** `width`: of the whole axis; `lane`: of its visible part, which begins at `left`. */
export const axisMarks = (
  scale: TimeScale,
  { width, lane, left }: { width: number; lane: number; left: number },
): { ticks: AxisTick[]; breaks: AxisBreak[] } => {
  const msPerPixel = scale.length / width
  const from = scale.timeAt(Math.max(0, left - 200) * msPerPixel)
  const to = scale.timeAt((left + lane + 400) * msPerPixel)
  const breaks = scale.breaks.map((each) => ({ ...each, left: each.place / msPerPixel, width: each.length / msPerPixel }))
  const isCovered = (x: number): boolean =>
    breaks.some((each) => {
      const middle = middleOf(each)
      return x > middle - BREAK_WIDTH / 2 - TICK_WIDTH && x < middle + BREAK_WIDTH / 2
    })
  const ticks = scale.parts
    .flatMap((part) => ticksOf(Math.max(from, part.from), Math.min(to, part.to), stepFor(msPerPixel)))
    .map((tick) => {
      const x = scale.placeOf(tick.at) / msPerPixel
      return { ...tick, left: x, covered: isCovered(x) }
    })
  return { ticks, breaks }
}

export const middleOf = ({ left, width }: AxisBreak): number => left + width / 2
