// The failpoints that processes have reported, and how often each killed one. Chooses those that were chosen least.

import type { Rng } from "../../sim/rng.ts"

/** A kill at a moment that no failpoint names. */
export const ANY_MOMENT = "any moment"

const COUNTS = [1, 1, 1, 2, 3, 5, 10]
/** Many points are reached at the start of a process already: some kills come later. */
const AFTER_MS = [0, 2000, 2000]

export class Points {
  readonly #rng: Rng
  /** By the role of a process: kills by point. */
  readonly #kills = new Map<string, Map<string, number>>()
  /** How often a point was chosen, by role and point: a process may end before it reaches its point. */
  readonly #chosen = new Map<string, number>()

  constructor(rng: Rng) {
    this.#rng = rng
  }

  reported(role: string, point: string): void {
    const known = this.#of(role)
    if (!known.has(point)) known.set(point, 0)
  }

  killed(role: string, point: string): void {
    const known = this.#of(role)
    known.set(point, (known.get(point) ?? 0) + 1)
  }

  /** Returns `POINT#COUNT#MS`; null while no point is known. */
  choose(role: string): string | null {
    const timesChosen = (point: string): number => this.#chosen.get(`${role} ${point}`) ?? 0
    const known = [...this.#of(role).keys()].filter((point) => point !== ANY_MOMENT)
    if (known.length === 0) return null
    const least = Math.min(...known.map(timesChosen))
    const point = this.#rng.pick(known.filter((each) => timesChosen(each) === least))
    this.#chosen.set(`${role} ${point}`, least + 1)
    return `${point}#${this.#rng.pick(COUNTS)}#${this.#rng.pick(AFTER_MS)}`
  }

  /** Number of kills by area: store, objects, spawn, http, any moment. */
  areas(): Record<string, number> {
    const areas: Record<string, number> = {}
    for (const [point, kills] of this.#all()) {
      const area = point === ANY_MOMENT ? point : point.slice(0, point.indexOf("."))
      areas[area] = (areas[area] ?? 0) + kills
    }
    return areas
  }

  /** Number of points that killed at least once, of those that were reached. */
  coverage(): { killed: number; reached: number } {
    const points = new Map<string, number>()
    for (const [point, kills] of this.#all()) if (point !== ANY_MOMENT) points.set(point, (points.get(point) ?? 0) + kills)
    return { killed: [...points.values()].filter((kills) => kills > 0).length, reached: points.size }
  }

  #all(): [string, number][] {
    return [...this.#kills.values()].flatMap((points) => [...points])
  }

  #of(role: string): Map<string, number> {
    const known = this.#kills.get(role) ?? new Map<string, number>()
    this.#kills.set(role, known)
    return known
  }
}
