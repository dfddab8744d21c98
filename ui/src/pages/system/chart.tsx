// A time chart. The chart library is loaded with this file.

import { type ReactElement, useEffect, useEffectEvent, useRef } from "react"
import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import { useDark } from "../../layout/theme.ts"
import { type ChartData, latest } from "./chart-data.ts"

export interface Line {
  name: string
  /** A custom property of styles/tokens.css. */
  colour: string
  /** Dashed, so that colour is not the only difference. */
  dashed?: boolean
  /** Values are counts per minute. */
  bars?: boolean
}

const HEIGHT = 190

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

/** Resolves `light-dark()` of a custom property through a real property. */
const resolve = (name: string): string => {
  const probe = document.createElement("span")
  probe.style.color = `var(${name})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

interface ChartProps {
  title: string
  lines: readonly Line[]
  data: ChartData
  unit: (value: number) => string
}

export const Chart = ({ title, lines, data, unit }: ChartProps): ReactElement => {
  const place = useRef<HTMLDivElement>(null)
  const dark = useDark()
  const shape = JSON.stringify([lines, dark])
  const plot = useRef<uPlot | null>(null)
  const unitOf = useEffectEvent(unit)
  const dataNow = useEffectEvent(() => alignedOf(data))

  useEffect(() => {
    const element = place.current!
    const [drawn] = JSON.parse(shape) as [Line[], boolean]
    const made = new uPlot(optionsOf(drawn, { width: element.clientWidth, unit: unitOf }), dataNow(), element)
    plot.current = made
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }))
    watch.observe(element)
    return () => {
      watch.disconnect()
      made.destroy()
    }
  }, [shape])

  useEffect(() => plot.current?.setData(alignedOf(data)), [data])

  return (
    <figure className="card chart">
      <figcaption className="chart-head">
        <h2>{title}</h2>
        <Legend lines={lines} data={data} unit={unit} />
      </figcaption>
      <div ref={place} className="chart-place" role="img" aria-label={`${title}: ${summary(lines, data, unit)}`} />
    </figure>
  )
}

const Legend = ({ lines, data, unit }: Omit<ChartProps, "title">): ReactElement => (
  <ul className="chart-legend">
    {lines.map((line, i) => (
      <li key={line.name}>
        <svg className="chart-key" viewBox="0 0 18 6" aria-hidden="true">
          <path
            d="M0 3h18"
            stroke={`var(${line.colour})`}
            strokeWidth="2.5"
            strokeDasharray={line.dashed === true ? "5 3" : "none"}
          />
        </svg>
        <span className="soft small">{line.name}</span>
        <span className="number small">{textOf(latest(data.columns[i]!), unit)}</span>
      </li>
    ))}
  </ul>
)

const optionsOf = (
  lines: readonly Line[],
  { width, unit }: { width: number; unit: (value: number) => string },
): uPlot.Options => {
  const ink = resolve("--ink-soft")
  const grid = { stroke: resolve("--line"), width: 1 }
  const font = `12px ${css("--font")}`
  return {
    width,
    height: HEIGHT,
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] } },
    axes: [
      { stroke: ink, grid, ticks: grid, font, space: 70, size: 32, values: "{HH}:{mm}" },
      { stroke: ink, grid, ticks: grid, font, size: 66, values: (_plot, values) => values.map((value) => unit(value)) },
    ],
    series: [{}, ...lines.map(seriesOf)],
  }
}

const seriesOf = ({ colour, dashed = false, bars = false }: Line): uPlot.Series => {
  const stroke = resolve(colour)
  return bars
    ? { stroke, fill: stroke, width: 0, points: { show: false }, paths: uPlot.paths.bars!({ size: [0.7, 40, 2] }) }
    : {
        stroke,
        width: 2,
        points: { show: true, size: 5, fill: stroke },
        spanGaps: true,
        ...(dashed && { dash: [6, 4] }),
      }
}

const alignedOf = ({ times, columns }: ChartData): uPlot.AlignedData => [times, ...columns] as uPlot.AlignedData

const textOf = (value: number | null, unit: (value: number) => string): string => (value === null ? "–" : unit(value))

const summary = (lines: readonly Line[], data: ChartData, unit: (value: number) => string): string =>
  lines.map((line, i) => `${line.name} now ${textOf(latest(data.columns[i]!), unit)}`).join(", ")
