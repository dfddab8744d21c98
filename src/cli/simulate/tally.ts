// Sums up many simulated runs: numbers of ends and faults, findings, and tasks that ran. Threads send a tally as plain data.

import type { SimulationBatch } from "./simulation-batch.ts"
import { FAULT_KINDS } from "./fault-plan.ts"
import type { Finding } from "./findings.ts"

/** A finding over many runs. */
export interface CountedFinding extends Finding {
  /** Number of runs with it. */
  runs: number
  /** The first seed that shows it, if possible with lost work; null: no single run does. */
  seed: number | null
}

export interface Tally {
  runs: number
  statuses: Record<string, number>
  faults: Record<string, number>
  findings: Map<string, CountedFinding>
  /** Names of tasks and hooks. */
  ran: Set<string>
  hasFailedTask: boolean
}

const newTally = (): Tally => ({
  runs: 0,
  statuses: { success: 0, failed: 0, cancelled: 0, running: 0 },
  faults: Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])),
  findings: new Map(),
  ran: new Set(),
  hasFailedTask: false,
})

/** Plays the runs of some seeds. */
export const playRuns = async (batch: SimulationBatch, firstSeed: number, count: number): Promise<Tally> => {
  const tally = newTally()
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    const { run, findings } = await batch.play(seed)
    tally.runs += 1
    tally.statuses[run.status]! += 1
    for (const { kind } of run.faults) tally.faults[kind]! += 1
    for (const finding of findings) addFinding(tally, { ...finding, runs: 1, seed })
    for (const { name, attempts, status } of run.tasks) {
      if (attempts > 0) tally.ran.add(name)
      if (status === "failed") tally.hasFailedTask = true
    }
  }
  return tally
}

const addFinding = ({ findings }: Tally, finding: CountedFinding): void => {
  const id = `${finding.kind} ${finding.task}`
  const known = findings.get(id)
  if (known === undefined) return void findings.set(id, { ...finding })
  if (finding.losesWork && !known.losesWork) Object.assign(known, { losesWork: true, seed: finding.seed })
  known.runs += finding.runs
}

/** Joins tallies, which are in the order of their seeds. */
export const joinTallies = (tallies: readonly Tally[]): Tally => {
  const all = newTally()
  for (const tally of tallies) {
    all.runs += tally.runs
    for (const status of Object.keys(all.statuses)) all.statuses[status]! += tally.statuses[status]!
    for (const kind of Object.keys(all.faults)) all.faults[kind]! += tally.faults[kind]!
    for (const finding of tally.findings.values()) addFinding(all, finding)
    for (const name of tally.ran) all.ran.add(name)
    all.hasFailedTask ||= tally.hasFailedTask
  }
  return all
}
