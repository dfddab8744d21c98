// One process after the other on one database in memory, under a virtual clock that the campaign advances. A killed process does
// nothing any more.

import { inlineEvaluator } from "../../../src/engine/gate/evaluator.ts"
import { FileObjectStore } from "../../../src/objects/file/file.ts"
import { type AnyTask, task } from "../../../src/sdk/definitions.ts"
import type { RunId } from "../../../src/core/model/ids.ts"
import { Ork } from "../../../src/sdk/ork.ts"
import type { ScheduleOptions } from "../../../src/sdk/orkable.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import type { RunRow } from "../../../src/store/contract/store.ts"
import { openSqlite } from "../../../src/store/sqlite/sqlite.ts"
import { type Owner, VirtualClock } from "../../sim/clock.ts"
import { Rng } from "../../sim/rng.ts"
import { Timeline } from "./expectation.ts"

const QUIET_TURNS = 12
const PAGE = 100

/** Work of a run, in milliseconds since the start. */
export interface Activity {
  task: string
  from: number
  to: number | null
  isOf: Owner
}

export interface WorldOptions {
  seed: number
  folder: string
  /** Tasks whose work takes minutes, or sometimes hours. */
  names: string[]
  change?: (store: ServerStore) => ServerStore
}

export class World {
  readonly store: ServerStore
  readonly clock: VirtualClock
  readonly timeline: Timeline
  readonly activities: Activity[] = []
  kills = 0
  clockSteps = 0
  readonly #dead: Set<string>
  readonly #rng: Rng
  readonly #objects: FileObjectStore
  readonly #tasks: AnyTask[]
  #ork: Ork | null = null
  #process: (Owner & { name: string }) | null = null
  #upSince = 0

  private constructor(parts: {
    store: ServerStore
    clock: VirtualClock
    dead: Set<string>
    rng: Rng
    folder: string
    names: string[]
  }) {
    const { store, clock, dead, rng, folder, names } = parts
    this.store = store
    this.clock = clock
    this.timeline = new Timeline(clock.now())
    this.#dead = dead
    this.#rng = rng
    this.#objects = new FileObjectStore(folder)
    this.#tasks = names.map((name) => task(name, {}, (_, { signal }) => this.#work(name, signal)))
  }

  static async open({ seed, folder, names, change = (store) => store }: WorldOptions): Promise<World> {
    const [clock, dead, rng] = [new VirtualClock(), new Set<string>(), new Rng("world of schedules", seed)]
    const store = await openSqlite({ path: ":memory:", clock, random: rng, isDead: ({ process }) => dead.has(process) })
    await store.migrate()
    return new World({ store: change(store), clock, dead, rng, folder, names })
  }

  async schedule(name: string, cron: string, options: ScheduleOptions): Promise<void> {
    const definition = this.#tasks.find((each) => each.name === name)!
    await this.#until(this.#ork!.schedule(name, cron, definition as AnyTask & { _input?: never }, {}, options))
  }

  /** Returns the ticks of all runs of a schedule. */
  async runTicks(workflow: string): Promise<number[]> {
    const ticks: number[] = []
    let before: { createdAt: string; id: RunId } | null = null
    for (;;) {
      const page: RunRow[] = await this.store.listRuns({ workflow, limit: PAGE, ...(before !== null && { before }) })
      ticks.push(...page.map(({ logicalDate }) => Date.parse(logicalDate!)))
      if (page.length < PAGE) return ticks
      before = page.at(-1)!
    }
  }

  /** Returns the ticks that are recorded as skipped because of another run. */
  async skippedByOverlap(workflow: string): Promise<number[]> {
    const [schedule] = await this.store.listSchedules({ workflow, limit: 1 })
    const skipped = await this.store.listSkippedTicks(schedule!, Number.MAX_SAFE_INTEGER)
    return skipped.filter(({ reason }) => reason.includes("overlap")).map(({ tick }) => Date.parse(tick))
  }

  async start(): Promise<void> {
    const process = { alive: true, name: `process ${this.kills}` }
    this.#process = process
    const starting = Ork.start(
      {
        store: { ...this.store, close: async () => {} },
        objects: this.#objects,
        evaluator: inlineEvaluator,
        clock: this.clock.forOwner(process),
        random: this.#rng,
        log: { info: () => {}, warn: () => {}, error: () => {} },
        process: process.name,
        name: process.name,
        holder: "run",
        concurrency: 100,
        version: "test",
      },
      this.#tasks,
    )
    this.#ork = await this.#until(starting)
    this.#upSince = this.clock.now()
    await this.#settle()
  }

  kill(): void {
    const process = this.#process!
    this.timeline.addUp(this.#upSince, this.clock.now())
    process.alive = false
    this.#dead.add(process.name)
    this.#process = null
    this.kills += 1
    for (const activity of this.activities) if (activity.isOf === process) activity.to ??= this.clock.elapsed
  }

  /** Sets the time of day forward or back. */
  setClock(ms: number): void {
    if (this.#process !== null) this.timeline.addUp(this.#upSince, this.clock.now())
    this.clock.stepTimeOfDay(ms)
    this.#upSince = this.clock.now()
    this.clockSteps += 1
  }

  async pass(ms: number): Promise<void> {
    let isOver = false
    this.clock.after(ms, () => void (isOver = true))
    while (!isOver) {
      this.clock.step()
      await this.#settle()
    }
  }

  async close(): Promise<void> {
    if (this.#process !== null) this.kill()
    await this.store.close()
  }

  async #settle(): Promise<void> {
    for (let i = 0; i < QUIET_TURNS; i++) await new Promise((resolve) => setImmediate(resolve))
  }

  async #until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false
    const settled = (): void => void (isSettled = true)
    promise.then(settled, settled)
    for (;;) {
      await this.#settle()
      if (isSettled) return await promise
      this.clock.step()
    }
  }

  #work(name: string, signal: AbortSignal): Promise<null> {
    const process = this.#process!
    const activity: Activity = { task: name, from: this.clock.elapsed, to: null, isOf: process }
    this.activities.push(activity)
    const ms = this.#rng.chance(0.1) ? this.#rng.int(1, 20) * 3_600_000 : this.#rng.int(1, 10) * 60_000
    return new Promise((resolve, reject) => {
      const end = (): void => void (activity.to ??= this.clock.elapsed)
      this.clock.forOwner(process).after(ms, () => {
        end()
        resolve(null)
      })
      signal.addEventListener("abort", () => {
        end()
        reject(new Error("stopped"))
      })
    })
  }
}
