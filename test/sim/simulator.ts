// Runs seeds one after the other: prepares a database, runs the scenario and checks the final state.

import { rmSync } from "node:fs"
import { join } from "node:path"
import type { StoredVersion } from "../../src/store/contract/store.ts"
import { deploy } from "../../src/engine/services/deploy.ts"
import { checkCounters } from "./checks/counters.ts"
import { describeState } from "./checks/describe-state.ts"
import { checkFinishedRun } from "./checks/finished-run.ts"
import { checkOverlaps, checkTicks } from "./checks/fired-ticks.ts"
import { checkFollowers, isFollowerDue } from "./checks/followers.ts"
import { checkIdleSlots } from "./checks/idle-slots.ts"
import { VirtualClock } from "./clock.ts"
import type { SimDatabase, SimDatabases } from "./database/database.ts"
import { postgresDatabases } from "./database/postgres.ts"
import { sqliteDatabases } from "./database/sqlite.ts"
import { makeFolder } from "./database/folder.ts"
import { JobUsers } from "./engine/job-users.ts"
import { QueueUsers } from "./engine/queue-users.ts"
import { Users } from "./engine/users.ts"
import { Rng } from "./rng.ts"
import { makeScenario, type Scenario } from "./scenario/scenario.ts"
import { describeWorld, shrink } from "./shrink/shrink.ts"
import { Simulation } from "./simulation.ts"
import { Trace, Violation } from "./trace.ts"

export const STORES = ["sqlite", "postgres"] as const
export type StoreKind = (typeof STORES)[number]

export interface Outcome {
  store: StoreKind
  seed: number
  /** A hash of the trace. */
  digest: string
  events: number
  launches: number
  commits: number
  failure: { invariant: string; message: string; tail: string[]; state: string[] } | null
}

/** The lines that explain a failure and how to replay it; none for a seed that passed. */
export const describeFailure = ({ store, seed, failure, digest }: Outcome): string[] =>
  failure === null
    ? []
    : [
        `seed ${seed} failed: ${failure.message}`,
        ...failure.tail.map((line) => `  ${line}`),
        ...failure.state,
        `invariant: ${failure.invariant}`,
        `trace ${digest}; replay with: npm run sim --${store === "sqlite" ? "" : ` --store ${store}`} --seed ${seed} --trace`,
      ]

const OPEN_DATABASES: Record<StoreKind, () => Promise<SimDatabases>> = {
  sqlite: sqliteDatabases,
  postgres: postgresDatabases,
}

export interface ShrunkSeed {
  world: string[]
  outcome: Outcome
  /** Number of reductions that were kept, and of worlds that were played. */
  reductions: number
  tries: number
}

const MAX_TRIES = 1000

export class Simulator {
  readonly #store: StoreKind
  readonly #databases: SimDatabases
  /** For the files of engines. */
  readonly #folder = makeFolder()

  private constructor(store: StoreKind, databases: SimDatabases) {
    this.#store = store
    this.#databases = databases
  }

  static async create(store: StoreKind): Promise<Simulator> {
    return new Simulator(store, await OPEN_DATABASES[store]())
  }

  async close(): Promise<void> {
    rmSync(this.#folder, { recursive: true, force: true })
    await this.#databases.close()
  }

  /** `change`: changes the world of the seed. */
  async run(
    seed: number,
    print: ((line: string) => void) | null = null,
    change: (scenario: Scenario) => Scenario = (scenario) => scenario,
  ): Promise<Outcome> {
    const database = await this.#databases.create(seed)
    const scenario = change(makeScenario(seed, database))
    const trace = new Trace(print)
    const versions = await deployAll(scenario, database)
    const dataDir = join(this.#folder, String(seed))
    const simulation = new Simulation({ scenario, database, trace, dataDir })
    let failure: Outcome["failure"] = null
    try {
      await runScenario(simulation, versions)
    } catch (error) {
      const invariant = error instanceof Violation ? error.invariant : "nothing throws"
      const message = error instanceof Violation ? error.message : String((error as Error).stack ?? error)
      failure = { invariant, message, tail: trace.tail, state: describeState(simulation) }
    }
    for (const process of simulation.processes) if (process.alive) await process.store.close()
    await database.close()
    rmSync(dataDir, { recursive: true, force: true })
    return {
      store: this.#store,
      seed,
      digest: trace.digest(),
      events: trace.lines,
      launches: simulation.attemptLog.attempts.size,
      commits: simulation.commitLog.count,
      failure,
    }
  }
}

/** Shrinks the world of a failing seed; null: the seed passes. */
export const shrinkSeed = async (simulator: Simulator, seed: number): Promise<ShrunkSeed | null> => {
  const { failure, store } = await simulator.run(seed)
  if (failure === null) return null
  const create = (): Scenario => makeScenario(seed, { leasesOnly: store === "postgres" })
  const play = async (scenario: Scenario): Promise<{ outcome: Outcome; world: string[] } | null> => {
    const world = describeWorld(scenario)
    const outcome = await simulator.run(seed, null, () => scenario)
    return outcome.failure?.invariant === failure.invariant ? { outcome, world } : null
  }
  const shrunk = await shrink({ create, play, maxTries: MAX_TRIES })
  return shrunk && { ...shrunk.failure, reductions: shrunk.reductions.length, tries: shrunk.tries }
}

const deployAll = async ({ workflows }: Scenario, database: SimDatabase): Promise<StoredVersion[]> => {
  const store = await database.openStore({ clock: new VirtualClock(), random: new Rng("prepare"), isDead: () => false })
  const versions: StoredVersion[] = []
  for (const { compiled: workflow } of workflows) {
    versions.push(await deploy(store, { workflow, hash: workflow.name, source: "" }))
  }
  await store.close()
  return versions
}

/** All runs must close within this virtual time. */
const MAX_VIRTUAL_MS = 4 * 3_600_000
/** Commits between two recounts of the tables. */
const MIN_COMMITS_BETWEEN_CHECKS = 4

const runScenario = async (simulation: Simulation, versions: StoredVersion[]): Promise<void> => {
  const { scenario, tables, commitLog, attemptLog } = simulation
  const users = new Users(simulation, versions)
  new JobUsers(simulation, users).start()
  new QueueUsers(simulation, users).start()
  scenario.engines.forEach((_, i) => simulation.startEngine(i))
  keepHouse(simulation)
  planOutage(simulation)
  planClockSteps(simulation)
  let checkedAt = -MIN_COMMITS_BETWEEN_CHECKS
  const checkTables = (): void => {
    const commits = commitLog.count - checkedAt
    if (commits < MIN_COMMITS_BETWEEN_CHECKS || commits < tables.lastTask() / 20) return
    checkedAt = commitLog.count
    checkCounters(simulation)
    checkOverlaps(simulation)
    checkIdleSlots(simulation)
  }
  const isDone = (): boolean =>
    users.idle &&
    simulation.pendingWakes === 0 &&
    tables.countUnfinishedRuns() === 0 &&
    tables.countActiveSchedules() === 0 &&
    !isFollowerDue(simulation) &&
    tables.countUnfinishedJobs() === 0 &&
    simulation.jobs.idle &&
    attemptLog.live.size === 0 &&
    areEnginesIdle(simulation)
  await simulation.runUntil(isDone, checkTables, MAX_VIRTUAL_MS)
  checkCounters(simulation)
  checkEndsReported(simulation)
  await stopEngines(simulation)
  checkFinalState(simulation, users)
}

const planOutage = (simulation: Simulation): void => {
  const { outage } = simulation.scenario.faults
  if (outage !== null) simulation.clock.after(outage.at, () => simulation.crashAll(outage))
}

const planClockSteps = (simulation: Simulation): void => {
  const { clock, scenario } = simulation
  for (const { at, ms } of scenario.clockSteps) {
    clock.after(at, () => {
      clock.stepTimeOfDay(ms)
      simulation.log(null, `the clock is set ${ms < 0 ? "back" : "forward"} by ${Math.abs(ms)} ms`)
    })
  }
}

const HOUSEKEEPING_MS = 5000
const LAST_HOUSEKEEPING_MS = 180_000

/** Removes unused limits every few seconds, as a server does every hour. */
const keepHouse = (simulation: Simulation): void => {
  const { clock, processes, database } = simulation
  if (clock.elapsed > LAST_HOUSEKEEPING_MS) return
  clock.after(HOUSEKEEPING_MS, () => {
    const process = processes.find(({ alive, started }) => alive && started)
    if (process !== undefined)
      simulation.track(async () => {
        if ((await process.store.trimLimits(100)) > 0) await database.refresh(process.store)
      })
    keepHouse(simulation)
  })
}

/** Returns whether every engine is up and has no store call in flight. */
const areEnginesIdle = ({ scenario, processes }: Simulation): boolean =>
  scenario.engines.every((_, i) => {
    const process = processes.findLast(({ engineIndex }) => engineIndex === i)
    if (process === undefined || !process.alive || !process.started) return false
    return !process.draining && process.calls === 0 && !process.failing
  })

const stopEngines = async (simulation: Simulation): Promise<void> => {
  const processes = simulation.processes.filter((process) => process.alive)
  simulation.shuttingDown = true
  let running = processes.length
  for (const process of processes) {
    process.draining = true
    process.services?.stop()
    const stopped = (): void => void (running -= 1)
    process.engine.stop().then(stopped, stopped)
  }
  await simulation.runUntil(
    () => running === 0,
    () => undefined,
    simulation.clock.elapsed + MAX_VIRTUAL_MS,
  )
  simulation.log(null, "all engines have stopped")
}

/** An engine that is asked to await a run may not learn of an end that another engine or a repeated batch committed. */
const checkEndsReported = (simulation: Simulation): void => {
  const { engines, faults } = simulation.scenario
  if (engines.filter((engine) => engine.privateRun === null).length > 1 || faults.repeatBatch > 0) return
  for (const { name, alive, awaitedRuns } of simulation.processes) {
    if (!alive) continue
    for (const [runId, isReported] of awaitedRuns) {
      if (isReported) continue
      throw new Violation("the end of a run is reported", `${name} did not report that ${simulation.labelOf(runId)} has closed`)
    }
  }
}

const checkFinalState = (simulation: Simulation, users: Users): void => {
  const { removals, created } = simulation.commitLog
  const runs = simulation.tables.runs().filter((run) => !removals.has(run.id))
  const stored = new Set(runs.map((run) => run.id))
  for (const id of [...users.acknowledged.keys(), ...created]) {
    if (!stored.has(id) && !removals.has(id))
      throw new Violation("no acknowledged run is lost", `${simulation.labelOf(id)} is not stored`)
  }
  const labels = runs.map((run) => simulation.labelOf(run.id))
  const duplicate = labels.find((label, i) => labels.indexOf(label) !== i)
  if (duplicate !== undefined) throw new Violation("an idempotency key starts one run", `${duplicate} is stored twice`)
  for (const run of runs) checkFinishedRun(simulation, run)
  checkTicks(simulation)
  checkFollowers(simulation)
  simulation.jobs.checkFinalState()
  for (const limit of simulation.tables.limits()) {
    if (limit.used !== 0) throw new Violation("slots are counted once", `${limit.key} has ${limit.used} used at the end`)
  }
  for (const run of runs) simulation.log(null, `${simulation.labelOf(run.id)} ${run.status} ${run.error ?? ""}`)
}
