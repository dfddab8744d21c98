// Checks that claims obey the settings of queues, as users have changed them.

import type { QueueSettings } from "../../../src/store/contract/queues.ts"
import type { Claim } from "../../../src/store/contract/store.ts"
import { UNBOUND } from "../scenario/queues.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"

interface Queue {
  settings: QueueSettings
  /** When its rate was set, and the starts since. */
  rateSince: number
  starts: number
}

/** Returns the queue of a lane; null for lanes of the gate and of private runs. */
const queueOf = (lane: string): string | null => /^[qhsf]:([^|]*)/.exec(lane)?.[1] ?? null

export class QueueLog {
  readonly #simulation: Simulation
  readonly #queues = new Map<string, Queue>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  #ofLane(lane: string): Queue | undefined {
    const name = queueOf(lane)
    return name === null ? undefined : this.#queues.get(name)
  }

  /** Returns whether the settings of a lane's queue may hold back its rows. */
  isBound(lane: string): boolean {
    const settings = this.#ofLane(lane)?.settings
    return settings !== undefined && (settings.paused || settings.concurrency !== null || settings.rate !== null)
  }

  get isAnyBound(): boolean {
    return [...this.#queues.keys()].some((name) => this.isBound(`q:${name}`))
  }

  noteSettings(name: string, change: Partial<QueueSettings>): void {
    const before = this.#queues.get(name)
    const settings = { ...(before?.settings ?? UNBOUND), ...change }
    const isSameRate = JSON.stringify(settings.rate) === JSON.stringify(before?.settings.rate ?? null)
    const rate = before !== undefined && isSameRate ? before : { rateSince: this.#simulation.clock.elapsed, starts: 0 }
    this.#queues.set(name, { settings, rateSince: rate.rateSince, starts: rate.starts })
  }

  /** Counts the attempts in flight that use slots of a queue's limit, by its name. */
  countOf(name: string): number {
    return this.#simulation.tables.lanesInFlight().filter(({ lane }) => queueOf(lane) === name).length
  }

  checkClaims(claims: readonly Pick<Claim, "row">[]): void {
    if (this.#queues.size === 0) return
    const started = new Set<string>()
    for (const { row } of claims) {
      const name = queueOf(this.#simulation.tables.taskByRow(row)!.lane)
      const queue = name === null ? undefined : this.#queues.get(name)
      if (name === null || queue === undefined) continue
      if (queue.settings.paused) throw new Violation("a paused queue starts nothing", `row ${row} of ${name}`)
      queue.starts += 1
      started.add(name)
    }
    for (const name of started) this.#checkStarts(name, this.#queues.get(name)!)
  }

  #checkStarts(name: string, { settings: { concurrency, rate }, rateSince, starts }: Queue): void {
    if (concurrency !== null && this.countOf(name) > concurrency)
      throw new Violation(
        "the concurrency of a queue holds",
        `${this.countOf(name)} of ${name} run, with ${concurrency} allowed`,
      )
    // The store measures the rate by the time of day.
    if (rate === null || this.#simulation.scenario.clockSteps.length > 0) return
    const passedMs = this.#simulation.clock.elapsed - rateSince
    const allowed = rate.limit + (passedMs * rate.limit) / rate.periodMs
    if (starts > allowed + 1e-6)
      throw new Violation(
        "the rate of a queue holds",
        `${name} has started ${starts} in ${passedMs} ms, with ${allowed} allowed`,
      )
  }
}
