// One seed from its beginning to its end: a fresh database, the world, and the checks when all is over.

import type { StoredVersion } from "../../src/store/contract/store.ts"
import { audit, checkIdle } from "./checks/counters.ts"
import { VirtualClock } from "./clock.ts"
import type { SimDatabase, SimDatabases } from "./database/database.ts"
import { postgresDatabases } from "./database/postgres.ts"
import { sqliteDatabases } from "./database/sqlite.ts"
import { dump } from "./checks/describe-state.ts"
import { Rng } from "./rng.ts"
import { makeScenario, type Scenario } from "./scenario/scenario.ts"
import { Trace, Violation } from "./trace.ts"
import { Users } from "./engine/users.ts"
import { checkRun } from "./checks/finished-run.ts"
import { World } from "./simulation.ts"

export interface Outcome {
  store: StoreKind
  seed: number
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

/** All runs must be over after this much virtual time. */
const UNTIL_MS = 4 * 3_600_000
const AUDIT_EVERY = 4

export const STORES = ["sqlite", "postgres"] as const
export type StoreKind = (typeof STORES)[number]

const OPEN: Record<StoreKind, () => Promise<SimDatabases>> = { sqlite: sqliteDatabases, postgres: postgresDatabases }

export class Simulator {
  readonly #store: StoreKind
  readonly #databases: SimDatabases

  private constructor(store: StoreKind, databases: SimDatabases) {
    this.#store = store
    this.#databases = databases
  }

  static async create(store: StoreKind): Promise<Simulator> {
    return new Simulator(store, await OPEN[store]())
  }

  close(): Promise<void> {
    return this.#databases.close()
  }

  async run(seed: number, print: ((line: string) => void) | null = null): Promise<Outcome> {
    const database = await this.#databases.create(seed)
    const scenario = makeScenario(seed, database)
    const trace = new Trace(print)
    const versions = await deploy(scenario, database)
    const world = new World(scenario, database, trace)
    let failure: Outcome["failure"] = null
    try {
      await playSeed(world, versions)
    } catch (error) {
      const invariant = error instanceof Violation ? error.invariant : "nothing throws"
      const message = error instanceof Violation ? error.message : String((error as Error).stack ?? error)
      failure = { invariant, message, tail: trace.tail, state: dump(world) }
    }
    for (const life of world.lives) if (life.alive) await life.store.close()
    await database.close()
    const { commits, witness } = world
    return {
      store: this.#store,
      seed,
      digest: trace.digest(),
      events: trace.lines,
      launches: witness.attempts.size,
      commits: commits.count,
      failure,
    }
  }
}

const deploy = async ({ workflows }: Scenario, database: SimDatabase): Promise<StoredVersion[]> => {
  const store = await database.openStore({ clock: new VirtualClock(), random: new Rng("prepare"), isDead: () => false })
  const versions: StoredVersion[] = []
  for (const { compiled } of workflows) {
    versions.push(await store.putWorkflow({ compiled, hash: compiled.name, source: "", deploy: true }))
  }
  await store.close()
  return versions
}

const playSeed = async (world: World, versions: StoredVersion[]): Promise<void> => {
  const users = new Users(world, versions)
  world.scenario.engines.forEach((_, i) => world.begin(i))
  let audited = -AUDIT_EVERY
  const quiet = (): void => {
    const since = world.commits.count - audited
    if (since < AUDIT_EVERY || since < world.tables.size() / 20) return
    audited = world.commits.count
    audit(world)
    checkIdle(world)
  }
  const rests = (): boolean => users.idle && world.tables.unfinished() === 0 && world.witness.live.size === 0 && isQuiet(world)
  await world.play(rests, quiet, UNTIL_MS)
  audit(world)
  await stopAll(world)
  checkEnd(world, users)
}

/** Every engine is there and has nothing under way. */
const isQuiet = (world: World): boolean =>
  world.scenario.engines.every((_, i) => {
    const life = world.lives.findLast((one) => one.engine === i)
    return life !== undefined && life.alive && life.started && !life.draining && life.calls === 0 && !life.failing
  })

const stopAll = async (world: World): Promise<void> => {
  const lives = world.lives.filter((life) => life.alive)
  checkTold(world)
  world.ending = true
  let left = lives.length
  for (const life of lives) {
    life.draining = true
    const over = (): void => void (left -= 1)
    life.subject.stop().then(over, over)
  }
  await world.play(
    () => left === 0,
    () => undefined,
    world.clock.elapsed + UNTIL_MS,
  )
  world.tell(null, "all is over")
}

/** Who waited for the end of a run has heard of it. Where other engines end runs too, the one that was asked may not know. */
const checkTold = (world: World): void => {
  const { engines, faults } = world.scenario
  if (engines.filter((engine) => engine.privateRun === null).length > 1 || faults.doubled > 0) return
  for (const life of world.lives) {
    if (!life.alive) continue
    for (const [runId, told] of life.awaited) {
      if (!told) throw new Violation("the end is told", `${life.name} did not tell that ${world.labelOf(runId)} has ended`)
    }
  }
}

const checkEnd = (world: World, users: Users): void => {
  const runs = world.tables.runs()
  const stored = new Set(runs.map((run) => run.id))
  for (const id of [...users.acknowledged.keys(), ...world.commits.created]) {
    if (!stored.has(id)) throw new Violation("nothing acknowledged is lost", `${world.labelOf(id)} is not stored`)
  }
  const labels = runs.map((run) => world.labelOf(run.id))
  const twice = labels.find((label, i) => labels.indexOf(label) !== i)
  if (twice !== undefined) throw new Violation("a key starts one run", `${twice} is there twice`)
  for (const run of runs) checkRun(world, run)
  for (const limit of world.tables.limits()) {
    if (limit.used !== 0) throw new Violation("slots are counted once", `${limit.key} has ${limit.used} used at the end`)
  }
  for (const run of runs) world.tell(null, `${world.labelOf(run.id)} ${run.status} ${run.error ?? ""}`)
}
