// The comparisons of the report: a figure of Ork against the best of other products in the same run.

export interface Comparison {
  label: string
  /** Product of Ork. */
  ork: string
  figure: string
  /** Products to compare with; the best of them counts. */
  against: readonly string[]
  better: "higher" | "lower"
  /** Ratio of Ork's figure to theirs. */
  target: number
}

const QUEUES = ["Graphile Worker", "pg-boss"]
const FUNCTIONS = ["DBOS", "Restate", "OpenWorkflow Postgres"]

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
]
