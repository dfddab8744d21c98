// The report of a simulation, for people and as JSON, and the story of one run.

import { duration, plural, table } from "../terminal/text.ts"
import type { Finding } from "./findings.ts"
import type { StoryLine } from "./attempt-simulator.ts"
import type { SimulatedRun } from "./simulation.ts"
import type { CountedFinding } from "./tally.ts"

export interface SimulationReport {
  file: string
  workflow: string
  firstSeed: number
  runs: number
  /** Number of runs by status. */
  statuses: Record<string, number>
  /** Number of faults by kind. */
  faults: Record<string, number>
  /** Those that lose work first, then the most frequent. */
  findings: CountedFinding[]
}

export const reportLines = (report: SimulationReport): string[] => {
  const { file, workflow, firstSeed, runs, statuses, faults, findings } = report
  const losing = findings.filter(({ losesWork }) => losesWork).length
  return [
    `${workflow}: ${plural(runs, "run")}, seeds ${firstSeed} to ${firstSeed + runs - 1}: ${counts(statuses)}`,
    `faults: ${counts(faults) || "none"}`,
    "",
    ...grouped(findings).flatMap((group) => [...groupLines(group), ""]),
    ...(findings.some(({ seed }) => seed !== null) ? [`ork simulate ${file} --seed N shows the run of a seed`] : []),
    `${plural(findings.length, "finding")}, ${losing === 0 ? "no work is lost" : `${losing} with lost work`}`,
  ]
}

/** Returns the lines of findings that differ in their task only. */
const groupLines = ([first, ...others]: [CountedFinding, ...CountedFinding[]]): string[] => [
  `${markOf(first)} ${first.message} (${first.kind})`,
  ...[first, ...others].map(({ task, runs, seed }) => {
    const shown = seed === null ? "" : `: in ${plural(runs, "run")}, such as seed ${seed}`
    return `    ${task ?? "the workflow"}${shown}`
  }),
  `    to change: ${first.advice}`,
]

const markOf = ({ losesWork }: Finding): string => (losesWork ? "✗" : "!")

const grouped = (findings: readonly CountedFinding[]): [CountedFinding, ...CountedFinding[]][] => {
  const groups = new Map<string, [CountedFinding, ...CountedFinding[]]>()
  for (const finding of findings) {
    const id = [markOf(finding), finding.kind, finding.message, finding.advice].join("\n")
    const group = groups.get(id)
    if (group === undefined) groups.set(id, [finding])
    else group.push(finding)
  }
  return [...groups.values()]
}

const counts = (numbers: Record<string, number>): string =>
  Object.entries(numbers)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`)
    .join(", ")

export const reportJson = ({ firstSeed, ...report }: SimulationReport): object => ({
  ...report,
  first_seed: firstSeed,
  findings: report.findings.map(jsonOf),
})

/** Returns what happened in a run, and its end. */
const storyOf = ({ story, status, error, durationMs }: SimulatedRun): StoryLine[] => {
  const end = status === "running" ? "the run has not ended after 30 days" : `the run ends as ${status}`
  return [...story, { ms: durationMs, text: `${end}${error === null ? "" : `: ${error}`}` }]
}

export const storyLines = (file: string, run: SimulatedRun, findings: readonly Finding[]): string[] => [
  `${file}, seed ${run.seed}:`,
  ...table(storyOf(run).map(({ ms, text }) => [`  ${duration(ms)}`, text])),
  ...findings.flatMap((finding) => ["", ...groupLines([{ ...finding, runs: 1, seed: null }])]),
]

export const storyJson = (file: string, run: SimulatedRun, findings: readonly Finding[]): object => ({
  file,
  seed: run.seed,
  status: run.status,
  faults: run.faults,
  story: storyOf(run),
  findings: findings.map(jsonOf),
})

const jsonOf = <Each extends Finding>({ losesWork, ...finding }: Each): object => ({ ...finding, loses_work: losesWork })
