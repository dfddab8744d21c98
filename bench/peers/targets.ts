// The comparisons of the report: a figure of Ork against the best of other products in the same run.

export interface Comparison {
  label: string
  /** Product of Ork. */
  ork: string
  figure: string
  /** Products to compare with; the best of them counts, or the one at this place. */
  against: readonly string[]
  place?: number
  /** Figure of these products. Default: `figure`. */
  againstFigure?: string
  better: "higher" | "lower"
  /** Ratio of Ork's figure to theirs. */
  target: number
}

const QUEUES = ["Graphile Worker", "pg-boss"]
const FUNCTIONS = ["DBOS", "Restate", "OpenWorkflow Postgres"]

const OTHERS = ["Graphile Worker", "pg-boss", "BullMQ"]

/** Compares the memory of Ork's process with the second smallest of the others. */
const memory = (label: string, figure: string): Comparison[] =>
  ["Ork SQLite", "Ork Postgres"].map((ork) => ({ label, ork, figure, against: OTHERS, place: 2, better: "lower", target: 1 }))

/** Compares Ork with itself in other conditions. */
const itself = (comparison: Pick<Comparison, "label" | "figure" | "againstFigure" | "better" | "target">): Comparison[] =>
  ["Ork SQLite", "Ork Postgres"].map((ork) => ({ ...comparison, ork, against: [ork] }))

const graphs = (ork: string, targets: { chain: number; fanOut: number; diamonds: number }): Comparison[] => [
  {
    label: "Chain of 100, ms per step",
    ork,
    figure: "chain_ms_per_step",
    against: ["BullMQ"],
    better: "lower",
    target: targets.chain,
  },
  { label: "1 → 1,000 → 1, ms", ork, figure: "fan_out_ms", against: ["BullMQ"], better: "lower", target: targets.fanOut },
  {
    label: "Diamonds per second",
    ork,
    figure: "diamonds_per_s",
    against: ["BullMQ"],
    better: "higher",
    target: targets.diamonds,
  },
]

export const COMPARISONS: readonly Comparison[] = [
  {
    label: "Jobs per second, end to end",
    ork: "Ork Postgres",
    figure: "jobs_per_s",
    against: QUEUES,
    better: "higher",
    target: 1,
  },
  {
    label: "Jobs per second, end to end",
    ork: "Ork SQLite",
    figure: "jobs_per_s",
    against: QUEUES,
    better: "higher",
    target: 1.5,
  },
  {
    label: "Jobs submitted per second",
    ork: "Ork Postgres",
    figure: "submitted_per_s",
    against: QUEUES,
    better: "higher",
    target: 0.7,
  },
  { label: "One job, p50, ms", ork: "Ork SQLite", figure: "p50_ms", against: ["BullMQ"], better: "lower", target: 0.5 },
  { label: "One job, p99, ms", ork: "Ork SQLite", figure: "p99_ms", against: ["BullMQ"], better: "lower", target: 0.5 },
  {
    label: "One job, p50, ms",
    ork: "Ork Postgres",
    figure: "p50_ms",
    against: ["Graphile Worker"],
    better: "lower",
    target: 1,
  },
  {
    label: "One job, p99, ms",
    ork: "Ork Postgres",
    figure: "p99_ms",
    against: ["Graphile Worker"],
    better: "lower",
    target: 1,
  },
  ...graphs("Ork SQLite", { chain: 0.4, fanOut: 0.3, diamonds: 4 }),
  ...graphs("Ork Postgres", { chain: 1, fanOut: 0.6, diamonds: 2 }),
  {
    label: "Functions of 10 steps per second",
    ork: "Ork Postgres",
    figure: "functions_per_s",
    against: FUNCTIONS,
    better: "higher",
    target: 3,
  },
  {
    label: "Functions of 10 steps per second",
    ork: "Ork SQLite",
    figure: "functions_per_s",
    against: FUNCTIONS,
    better: "higher",
    target: 10,
  },
  ...["SQLite", "Postgres"].flatMap((store): Comparison[] => [
    {
      label: "Jobs per second, default settings",
      ork: `Ork ${store}`,
      figure: "jobs_per_s",
      against: [`Ork ${store}, tuned`],
      better: "higher",
      target: 0.8,
    },
    {
      label: "Jobs per second, over HTTP",
      ork: `Ork ${store} over HTTP`,
      figure: "jobs_per_s",
      against: [`Ork ${store}`],
      better: "higher",
      target: 0.4,
    },
  ]),
  ...memory("Memory, idle, MB", "idle_mb"),
  ...memory("Memory, 500 in flight, MB", "in_flight_mb"),
  ...memory("Memory after 1,000,000 jobs, MB", "after_million_mb"),
  ...[
    [2, 1],
    [4, 2],
    [8, 4],
  ].map(([more, fewer]): Comparison => ({
    label: `Jobs per second, ${more} processes against ${fewer}`,
    ork: "Ork Postgres",
    figure: `jobs_per_s_${more}`,
    against: ["Ork Postgres"],
    againstFigure: `jobs_per_s_${fewer}`,
    better: "higher",
    target: 1,
  })),
  ...itself({
    label: "µs per job, 1,000,000 queued against 120,000",
    figure: "us_per_job_queued",
    againstFigure: "us_per_job",
    better: "lower",
    target: 1.15,
  }),
  ...itself({
    label: "µs per job, 1,000,000 finished against none",
    figure: "us_per_job_finished",
    againstFigure: "us_per_job",
    better: "lower",
    target: 1.15,
  }),
]
