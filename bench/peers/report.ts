// Writes docs/performance.md and its plots from the figures of a run.

import { PRODUCTS, type Workload } from "./products.ts"
import { type Figure, figureOf, type Round } from "./results.ts"
import { type Comparison, COMPARISONS } from "./targets.ts"

export interface Machine {
  cpu: string
  cores: number
  memoryGb: number
  node: string
  kernel: string
}

export interface Report {
  date: string
  commit: string
  machine: Machine
  /** Versions of the products and servers, by name. */
  versions: Record<string, string>
  rounds: readonly Round[]
  /** Rounds of each product and workload, and jobs of a round. */
  repeated: number
  jobs: number
}

interface Column {
  title: string
  figure: string
}

const TABLES: { workload: Workload; title: string; columns: Column[] }[] = [
  {
    workload: "jobs",
    title: "Jobs",
    columns: [
      { title: "submitted per second", figure: "submitted_per_s" },
      { title: "end to end per second", figure: "jobs_per_s" },
    ],
  },
  {
    workload: "latency",
    title: "One job at a time, from its submission to its visible completion",
    columns: [
      { title: "p50, ms", figure: "p50_ms" },
      { title: "p99, ms", figure: "p99_ms" },
    ],
  },
  {
    workload: "graphs",
    title: "Graphs",
    columns: [
      { title: "chain of 100, ms per step", figure: "chain_ms_per_step" },
      { title: "1 → 1,000 → 1, ms", figure: "fan_out_ms" },
      { title: "100 diamonds, per second", figure: "diamonds_per_s" },
    ],
  },
  {
    workload: "functions",
    title: "Durable functions of ten steps",
    columns: [{ title: "runs per second", figure: "functions_per_s" }],
  },
  {
    workload: "memory",
    title: "Memory of the process, MB",
    columns: [
      { title: "idle", figure: "idle_mb" },
      { title: "after the jobs", figure: "after_jobs_mb" },
      { title: "500 in flight", figure: "in_flight_mb" },
    ],
  },
  {
    workload: "processes",
    title: "Jobs per second in several processes on one Postgres",
    columns: [1, 2, 4, 8].map((count) => ({
      title: count === 1 ? "1 process" : `${count} processes`,
      figure: `jobs_per_s_${count}`,
    })),
  },
  {
    workload: "million",
    title: "A million jobs",
    columns: [
      { title: "µs per job, 120,000 queued", figure: "us_per_job" },
      { title: "1,000,000 queued", figure: "us_per_job_queued" },
      { title: "after 1,000,000 finished", figure: "us_per_job_finished" },
      { title: "memory after them, MB", figure: "after_million_mb" },
    ],
  },
]

const number = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Math.round(value * 100) / 100)

const withSpread = (figure: Figure | null): string =>
  figure === null ? "–" : `${number(figure.median)} (${number(figure.low)} to ${number(figure.high)})`

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

/** Returns the product that a comparison is made with; null when it was not measured. */
const rivalOf = (rounds: readonly Round[], comparison: Comparison): { name: string; value: number } | null => {
  const { against, figure, againstFigure = figure, better, place = 1 } = comparison
  const measured = against.flatMap((name) => {
    const found = figureOf(rounds, name, againstFigure)
    return found === null ? [] : [{ name, value: found.median }]
  })
  return measured.toSorted((a, b) => (better === "higher" ? b.value - a.value : a.value - b.value))[place - 1] ?? null
}

export interface Outcome {
  comparison: Comparison
  ork: number
  rival: { name: string; value: number }
  ratio: number
  reached: boolean
}

export const outcomesOf = (rounds: readonly Round[]): Outcome[] =>
  COMPARISONS.flatMap((comparison) => {
    const ork = figureOf(rounds, comparison.ork, comparison.figure)
    const rival = rivalOf(rounds, comparison)
    if (ork === null || rival === null) return []
    const ratio = ork.median / rival.value
    const reached = comparison.better === "higher" ? ratio >= comparison.target : ratio <= comparison.target
    return [{ comparison, ork: ork.median, rival, ratio, reached }]
  })

const outcomeRow = ({ comparison, ork, rival, ratio, reached }: Outcome): string[] => [
  comparison.label,
  `${comparison.ork}: ${number(ork)}`,
  `${rival.name}: ${number(rival.value)}`,
  `${ratio.toFixed(2)} ×`,
  `${comparison.better === "higher" ? "≥" : "≤"} ${comparison.target} ×`,
  reached ? "yes" : "**no**",
]

const section = ({ workload, title, columns }: (typeof TABLES)[number], rounds: readonly Round[]): string => {
  const products = PRODUCTS.filter(({ workloads }) => workloads.includes(workload))
  const rows = products.map(({ name }) => [name, ...columns.map(({ figure }) => withSpread(figureOf(rounds, name, figure)))])
  return `## ${title}\n\n${table(["", ...columns.map((column) => column.title)], rows)}`
}

const PLOT_WIDTH = 720
const BAR = 26
const LABEL = 190

/** Draws the end-to-end rates of jobs as bars. */
export const jobsPlot = (rounds: readonly Round[]): string => {
  const bars = PRODUCTS.flatMap(({ name }) => {
    const figure = figureOf(rounds, name, "jobs_per_s")
    return figure === null ? [] : [{ name, value: figure.median }]
  }).toSorted((a, b) => b.value - a.value)
  const longest = Math.max(1, ...bars.map(({ value }) => value))
  const rows = bars.map(({ name, value }, i) => {
    const y = 10 + i * (BAR + 8)
    const width = Math.round((value / longest) * (PLOT_WIDTH - LABEL - 90))
    const fill = name.startsWith("Ork") ? "#2563eb" : "#94a3b8"
    return `  <text x="${LABEL - 10}" y="${y + 18}" text-anchor="end">${name}</text>
  <rect x="${LABEL}" y="${y}" width="${width}" height="${BAR}" fill="${fill}"/>
  <text x="${LABEL + width + 8}" y="${y + 18}">${number(value)}</text>`
  })
  const height = 10 + bars.length * (BAR + 8)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${PLOT_WIDTH} ${height}" font-family="sans-serif" font-size="14" role="img" aria-label="Jobs per second, end to end">
  <rect width="100%" height="100%" fill="#fff"/>
${rows.join("\n")}
</svg>
`
}

export const markdown = (report: Report): string => {
  const { date, commit, machine, versions, rounds, repeated, jobs } = report
  const outcomes = outcomesOf(rounds)
  const behind = outcomes.filter(({ reached }) => !reached).length
  return `# Performance

This page is written by \`npm run bench -- peers\`. It was measured on ${date} at commit ${commit}: ${machine.cores} × ${machine.cpu},
${machine.memoryGb} GB, ${machine.kernel}, Node ${machine.node}. Figures are medians of ${repeated} rounds with the lowest and the highest; each round is a
fresh process, the products take turns, and ${jobs.toLocaleString("en-US")} jobs make a round. Absolute figures depend on the machine: compare them
only within this page. Handlers do nothing and run in the process of the benchmark. Ork keeps its history.

![Jobs per second, end to end](images/performance-jobs.svg)

## Ork against others and itself

Of other products the best counts; of their memory the second smallest.

${table(["figure", "Ork", "compared with", "ratio", "target", "reached"], outcomes.map(outcomeRow))}

${behind === 0 ? "Ork reaches every target of this run." : `Ork misses ${behind} of ${outcomes.length} targets.`}

${TABLES.map((one) => section(one, rounds)).join("\n\n")}

## Settings and versions

${table(
  ["product", "version", "settings"],
  PRODUCTS.map(({ name, settings }) => [name, versions[name] ?? "", settings]),
)}

Postgres ${versions["Postgres"]} runs with \`fsync\` and \`synchronous_commit\` on; Redis ${versions["Redis"]} runs with its default settings.
`
}
