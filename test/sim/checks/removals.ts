// Checks the removal of old runs: a run is removed only if it ended long enough ago, and nobody can retry it from then on.

import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { checkFinishedRun } from "./finished-run.ts"

export class Removals {
  readonly #simulation: Simulation
  readonly #removed = new Set<string>()
  /** When runs closed last: the time of day. */
  readonly #closedAt = new Map<string, number>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  /** Returns whether the store has begun to remove a run. */
  has(runId: string): boolean {
    return this.#removed.has(runId)
  }

  noteClosed(runId: string): void {
    this.#closedAt.set(runId, this.#simulation.clock.now())
  }

  /** Checks a run that is about to be removed, since nobody can check it later. */
  beforeRemoval(runId: string): void {
    const run = this.#simulation.tables.run(runId)
    const isRemovable = run !== undefined && run.finished_at !== null && run.hooks_pending === 0
    if (isRemovable && !this.has(runId)) checkFinishedRun(this.#simulation, run)
  }

  afterRemoval(runId: string): void {
    if (this.has(runId)) return
    this.#removed.add(runId)
    const { clock, scenario } = this.#simulation
    const closedAt = this.#closedAt.get(runId)
    if (closedAt !== undefined && clock.latest - closedAt > scenario.retention!.olderThanMs) return
    const age = closedAt === undefined ? "has never closed" : `closed ${clock.latest - closedAt} ms ago`
    throw new Violation("only old runs are removed", `${this.#simulation.labelOf(runId)} ${age}`)
  }

  /** A run that is being removed has lost its outputs. */
  checkRetried(runId: string): void {
    if (this.has(runId)) throw new Violation("a removed run is not retried", this.#simulation.labelOf(runId))
  }
}
