// The failpoints that processes have reported, and how often each killed one. Chooses those that killed least.

import type { Rng } from "../../sim/rng.ts"

/** A kill at a moment that no failpoint names. */
export const ANY_MOMENT = "any moment"

const COUNTS = [1, 1, 2, 3, 5, 10, 20]

export class Points {
  readonly #rng: Rng
  /** By the role of a process: kills by point. */
  readonly #kills = new Map<string, Map<string, number>>()

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

  /** Returns `POINT#COUNT`; null while no point is known. */
  choose(role: string): string | null {
    const known = [...this.#of(role)].filter(([point]) => point !== ANY_MOMENT)
    const least = Math.min(...known.map(([, kills]) => kills))
    const points = known.filter(([, kills]) => kills <= least + 1).map(([point]) => point)
    return points.length === 0 ? null : `${this.#rng.pick(points)}#${this.#rng.pick(COUNTS)}`
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
