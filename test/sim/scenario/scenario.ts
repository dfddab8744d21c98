// Everything that a seed decides in advance: workflows, engines, the actions of users and the faults.

import type { JsonObject } from "../../../src/core/values/json.ts"
import type { RetryRequest } from "../../../src/core/rules/runs/retry-plan.ts"
import { manyRuns, manyWorkflows } from "./crossed-bounds.ts"
import { type ClockStep, makeClockSteps, makeSkew } from "./clocks.ts"
import { makeFollowers } from "./followers.ts"
import { makeFunctions, NO_FUNCTIONS, type SignalSpec } from "./functions.ts"
import { addGroups } from "./groups.ts"
import { type JobAction, type JobRequest, makeJobActions, makeJobs } from "./jobs.ts"
import { makeRetention, moreRetries, type Retention } from "./retention.ts"
import { makeQueueChanges, type QueueChange } from "./queues.ts"
import { makeOutage, makeScheduled, type Outage } from "./schedules.ts"
import { Rng } from "../rng.ts"
import { addWaitingTasks, makeChild } from "./waiting-tasks.ts"
import { makeWorkflow, type SimWorkflow } from "./workflows.ts"

export interface RunSpec {
  label: string
  workflow: number
  at: number
  params: JsonObject
  priority: number | null
  /** The idempotency key; with one, a user repeats a request that failed. */
  key: string | null
  /** The index of the engine that runs it alone; null: any shared engine. */
  private: number | null
  /** The signals to a durable function. */
  signals?: SignalSpec[]
}

export type UserAction = { at: number; run: number } & (
  | { kind: "cancel" }
  | { kind: "pause"; forMs: number }
  | { kind: "retry"; how: "failed" | "from" | "instance"; pick: number }
)

export interface EngineSpec {
  name: string
  concurrency: number
  /** The index of the only run that it takes; null: it takes all shared work. */
  privateRun: number | null
  /** Times in ms at which an operator restarts it. */
  restarts: number[]
  /** By how much its clock is ahead of that of the database. */
  skewMs: number
}

/** A crash of an engine at its n-th store call, counted over all of its processes. */
export interface CrashSpec {
  engine: number
  call: number
  when: "before" | "after"
  downMs: number
}

export interface FaultSpec {
  /** No fault occurs after this time in ms. The other fields are probabilities per call. */
  until: number
  failBeforeCommit: number
  failAfterCommit: number
  slow: number
  verySlow: number
  /** The changes of a batch arrive a second time. */
  repeatBatch: number
  /** The expression evaluator fails. */
  evaluator: number
  crashes: CrashSpec[]
  /** All engines crash at once; null: never. */
  outage: Outage | null
}

export interface Scenario {
  seed: number
  workflows: SimWorkflow[]
  runs: RunSpec[]
  actions: UserAction[]
  engines: EngineSpec[]
  faults: FaultSpec
  clockSteps: ClockStep[]
  /** null: all runs stay. */
  retention: Retention | null
  jobs: JobRequest[]
  jobActions: JobAction[]
  queueChanges: QueueChange[]
  /** Holders have leases, as on Postgres; otherwise the simulation decides which holders are dead. */
  leases: boolean
}

const LAST_ACTION_MS = 60_000

/** Every n-th seed has a fan-out that takes several transactions to expand, and crashes during them. */
const HUGE_FAN_OUT_EVERY = 40
/** Every n-th seed, from this one on, crosses the bounds of the stores. */
const CROSSED_BOUNDS = { every: 100, first: 33 }

export const makeScenario = (seed: number, { leasesOnly }: { leasesOnly: boolean }): Scenario => {
  const rng = new Rng("scenario", seed)
  const huge = seed % HUGE_FAN_OUT_EVERY === 0
  const leases = rng.chance(0.4) || leasesOnly
  const workflows = Array.from({ length: rng.pick([1, 1, 2, 2, 3, 4]) }, (_, i) => makeWorkflow(rng, `w${i}`, huge && i === 0))
  for (const [i, workflow] of workflows.entries()) addGroups(new Rng("groups", seed, i), workflow)
  const child = makeChild(new Rng("child", seed))
  for (const [i, workflow] of workflows.entries()) addWaitingTasks(new Rng("waits", seed, i), workflow, child.compiled.name)
  const span = rng.pick([1, 1000, 10_000, LAST_ACTION_MS])
  const runs = Array.from({ length: huge ? 1 : rng.pick([1, 2, 3, 4, 6]) }, (_, i): RunSpec =>
    makeRun(rng, i, huge ? 1 : workflows.length, span),
  )
  const shared = rng.chance(0.3) ? new Rng("shared engines", seed).pick([2, 2, 3, 4]) : 1
  const engines: EngineSpec[] = Array.from({ length: shared }, (_, i) => makeEngine(rng, `e${i}`, null))
  if (rng.chance(0.25)) {
    const own = rng.int(0, runs.length - 1)
    Object.assign(runs[own]!, { private: engines.length, key: "own" })
    engines.push(makeEngine(rng, "own", own))
  }
  const actions = Array.from({ length: rng.chance(0.6) ? rng.int(0, 5) : 0 }, () => makeAction(rng, runs, span))
  const faults = makeFaults(rng, engines.length, huge, leases)
  // Leases expire under running attempts only if these take a while.
  if (leases && faults.verySlow > 0) for (const { rates } of workflows) rates.slow = 0.4
  const scheduled = makeScheduled(seed)
  if (scheduled.length > 0) faults.outage = makeOutage(seed)
  // Servers on one SQLite file share a machine and its clock.
  if (leases) for (const [i, engine] of engines.entries()) engine.skewMs = makeSkew(seed, i)
  const followers = huge ? [] : makeFollowers(seed, workflows)
  // The parent of a sub-workflow and the checks of schedules and triggers read runs after their end.
  const areRunsRead = [...workflows, ...scheduled, ...followers].some(isReadLater)
  const functions = huge ? NO_FUNCTIONS : makeFunctions(seed)
  // Functions read the ends of those that they have called.
  const retention = huge || areRunsRead || functions.runs.length > 0 ? null : makeRetention(seed)
  if (retention !== null) actions.push(...moreRetries(seed, runs))
  const crossesBounds = seed % CROSSED_BOUNDS.every === CROSSED_BOUNDS.first
  const others = [...workflows, ...(crossesBounds ? manyWorkflows(seed) : []), ...scheduled, ...followers]
  if (crossesBounds) runs.push(...manyRuns(seed, workflows.length))
  const jobs = makeJobs(seed)
  actions.push(...functions.actions.map((action) => ({ ...action, run: action.run + runs.length })))
  runs.push(...functions.runs.map((run) => ({ ...run, workflow: run.workflow + others.length })))
  return {
    seed,
    workflows: [...others, ...functions.workflows, child],
    runs,
    actions: actions.toSorted((a, b) => a.at - b.at),
    engines,
    faults,
    clockSteps: makeClockSteps(seed),
    retention,
    jobs,
    jobActions: makeJobActions(seed, jobs),
    queueChanges: makeQueueChanges(seed),
    leases,
  }
}

const isReadLater = ({ compiled, nodes }: SimWorkflow): boolean =>
  compiled.schedules.length > 0 ||
  compiled.triggers !== undefined ||
  nodes.some(({ waitPlan }) => waitPlan?.kind === "workflow")

const makeRun = (rng: Rng, i: number, workflows: number, span: number): RunSpec => ({
  label: `r${i}`,
  workflow: rng.int(0, workflows - 1),
  at: rng.int(0, span),
  params: { x: rng.int(0, 5), g: rng.pick(["a", "b"]) },
  priority: rng.chance(0.2) ? rng.int(1, 10) : null,
  key: rng.chance(0.5) ? `key-${i}` : null,
  private: null,
})

const makeEngine = (rng: Rng, name: string, privateRun: number | null): EngineSpec => ({
  name,
  concurrency: rng.pick([1, 2, 4, 16, 64]),
  privateRun,
  restarts: rng.chance(0.2) ? [rng.int(100, rng.pick([1000, 10_000, LAST_ACTION_MS]))] : [],
  skewMs: 0,
})

const makeAction = (rng: Rng, runs: RunSpec[], span: number): UserAction => {
  const run = rng.int(0, runs.length - 1)
  const at = runs[run]!.at + rng.int(0, rng.chance(0.5) ? 2000 : Math.max(span, 20_000))
  const kind = rng.pick(["cancel", "pause", "retry", "retry"] as const)
  switch (kind) {
    case "cancel":
      return { at, run, kind }
    case "pause":
      return { at, run, kind, forMs: rng.int(1, 10_000) }
    case "retry": {
      const how = rng.pick(["failed", "from", "instance"] as const)
      return { at, run, kind, how, pick: rng.int(0, 1_000_000) }
    }
    default:
      return kind satisfies never
  }
}

const makeFaults = (rng: Rng, engines: number, huge: boolean, leases: boolean): FaultSpec => {
  const rate = rng.pick([0, 0, 0.01, 0.05])
  const crashes = huge || rng.chance(0.5) ? rng.int(1, 4) : 0
  return {
    until: LAST_ACTION_MS + 30_000,
    failBeforeCommit: rate,
    failAfterCommit: rate,
    slow: rng.pick([0, 0.1, 0.4]),
    verySlow: rng.chance(leases ? 0.4 : 0.1) ? rng.pick([0.02, 0.08]) : 0,
    repeatBatch: rng.pick([0, 0, 0.1]),
    evaluator: rng.pick([0, 0, 0, 0.03]),
    crashes: Array.from({ length: crashes }, () => ({
      engine: rng.int(0, engines - 1),
      call: huge ? rng.int(4, 12) : rng.chance(0.7) ? rng.int(1, 30) : rng.int(1, 200),
      when: rng.pick(["before", "after"] as const),
      downMs: rng.pick([0, 100, 5000, 15_000]),
    })),
    outage: null,
  }
}

/** Turns a planned retry into a request about a run, whose instance paths are known by now. */
export const retryRequest = (
  { how, pick }: Extract<UserAction, { kind: "retry" }>,
  { nodes }: SimWorkflow,
  instancePaths: (node: number) => string[],
): RetryRequest => {
  const tasks = nodes.filter(({ node }) => node.hook === null)
  const from = tasks[pick % tasks.length]!.node.name
  if (how === "failed") return {}
  if (how === "from") return { from }
  const withInstances = tasks.filter(
    ({ index, items, node }) => (items !== null || node.group !== null) && instancePaths(index).length > 0,
  )
  if (withInstances.length === 0) return { from }
  const { index, node } = withInstances[pick % withInstances.length]!
  const paths = instancePaths(index)
  return { instance: { task: node.name, path: paths[pick % paths.length]! } }
}
