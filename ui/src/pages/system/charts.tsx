import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { type ReactElement, useMemo } from "react"
import { statsQuery } from "../../api/queries.ts"
import { Empty } from "../../components/states.tsx"
import { countText } from "../../format/count.ts"
import { durationText } from "../../format/time.ts"
import { chartData, type Range, RANGES, type Series } from "./chart-data.ts"
import { Chart } from "./chart.tsx"

const route = getRouteApi("/shell/system")

const count = (value: number): string =>
  value < 10 && !Number.isInteger(value) ? value.toFixed(1) : countText(Math.round(value))

/** Charts of the server's activity per minute. */
export const Charts = (): ReactElement | null => {
  const { range = "1h" } = route.useSearch()
  const { data: stats } = useQuery(statsQuery)
  const series = useMemo(() => (stats?.series == null ? null : withNow(stats.series, stats.queues)), [stats])
  if (stats === undefined) return null
  if (series === null) return <Empty title="This server has no statistics" icon="system" />
  return (
    <>
      <nav className="choice choice-start" aria-label="Range of the charts">
        {(Object.keys(RANGES) as Range[]).map((each) => (
          <Link
            key={each}
            to="."
            search={(old) => ({ ...old, range: each })}
            aria-current={each === range ? "page" : undefined}
          >
            {each}
          </Link>
        ))}
      </nav>
      <ChartGrid series={series} range={range} />
    </>
  )
}

/** Gives the current minute the current queue depths. */
const withNow = (series: Series, { ready, running }: { ready: number; running: number }): Series => ({
  ...series,
  ready: series.ready.with(-1, ready),
  running: series.running.with(-1, running),
})

const ChartGrid = ({ series, range }: { series: Series; range: Range }): ReactElement => {
  const { throughput, failures, dispatch, depth } = useMemo(
    () => ({
      throughput: chartData(series, range, [
        { values: series.success.map((each, i) => each + series.failed[i]!), fold: "sum" },
      ]),
      failures: chartData(series, range, [{ values: series.failed, fold: "sum" }]),
      dispatch: chartData(series, range, [
        { values: series.dispatch_p50_ms, fold: "mean" },
        { values: series.dispatch_p95_ms, fold: "mean" },
      ]),
      depth: chartData(series, range, [
        { values: series.ready, fold: "last" },
        { values: series.running, fold: "last" },
      ]),
    }),
    [series, range],
  )
  return (
    <div className="columns charts">
      <Chart
        title="Finished attempts per minute"
        data={throughput}
        unit={count}
        lines={[{ name: "all", colour: "--success", bars: true }]}
      />
      <Chart
        title="Failures per minute"
        data={failures}
        unit={count}
        lines={[{ name: "failed, timed out, lost or cancelled", colour: "--failed", bars: true }]}
      />
      <Chart
        title="Wait before a run's first task"
        data={dispatch}
        unit={durationText}
        lines={[
          { name: "median", colour: "--running" },
          { name: "95 of 100", colour: "--cancelled", dashed: true },
        ]}
      />
      <Chart
        title="Queues"
        data={depth}
        unit={count}
        lines={[
          { name: "ready", colour: "--waiting", dashed: true },
          { name: "running", colour: "--running" },
        ]}
      />
    </div>
  )
}
