// The failpoints that processes have reported, and how often each killed one. Chooses those that have killed least.

import type { Rng } from "../../sim/rng.ts"

/** A kill at a moment that no failpoint names. */
export const ANY_MOMENT = "any moment"
/** A report of a process (ork.ts): a point; a point that was reached again, after the start; an operation that a port offers. */
export const LATER = "later "
export const OFFERED = "offered "

const COUNTS = [1, 1, 1, 2, 3, 5, 10]
/** Many points are reached at the start of a process already: some kills come later. */
const AFTER_MS = [0, 2000, 2000]
/** A kill weighs as much as this number of tries in vain: some points are reached seldom. */
const KILL_WEIGHT = 4

interface Point {
  kills: number
  chosen: number
  /** Whether a process reached it after its start. */
  isLater: boolean
}

export class Points {
  readonly #rng: Rng
  /** By the role of a process, and by name. */
  readonly #points = new Map<string, Map<string, Point>>()
  readonly #offered = new Set<string>()

  constructor(rng: Rng) {
    this.#rng = rng
  }

  /** Takes a line that a process reports. */
  reported(role: string, line: string): void {
    if (line.startsWith(OFFERED)) this.#offered.add(line.slice(OFFERED.length))
    else if (line.startsWith(LATER)) this.#point(role, line.slice(LATER.length)).isLater = true
    else this.#point(role, line)
  }

  killed(role: string, point: string): void {
    this.#point(role, point).kills += 1
  }

  /** Returns `POINT#COUNT#MS`; null while no point is known. */
  choose(role: string): string | null {
    const known = [...(this.#points.get(role) ?? [])].filter(([name]) => name !== ANY_MOMENT)
    if (known.length === 0) return null
    const weight = ({ kills, chosen }: Point): number => KILL_WEIGHT * kills + Math.max(0, chosen - kills)
    const least = Math.min(...known.map(([, point]) => weight(point)))
    const [name, point] = this.#rng.pick(known.filter(([, each]) => weight(each) === least))
    // A point that processes reach at their start only, or seldom, kills when it is reached.
    const isFrequent = point.isLater && (point.kills > 0 || point.chosen === 0)
    point.chosen += 1
    return isFrequent ? `${name}#${this.#rng.pick(COUNTS)}#${this.#rng.pick(AFTER_MS)}` : `${name}#1#0`
  }

  /** Number of kills by area: store, objects, spawn, http, any moment. */
  areas(): Record<string, number> {
    const areas: Record<string, number> = {}
    for (const [point, kills] of this.#kills()) {
      const area = point.includes(".") ? point.slice(0, point.indexOf(".")) : point
      areas[area] = (areas[area] ?? 0) + kills
    }
    return areas
  }

  /** Points with their kills, those that killed most first, and the operations of ports that no process called. */
  coverage(): { killed: [string, number][]; spared: string[]; neverReached: string[] } {
    const points = [...this.#kills()].filter(([point]) => point !== ANY_MOMENT)
    return {
      killed: points.filter(([, kills]) => kills > 0).toSorted(([, a], [, b]) => b - a),
      spared: points.flatMap(([point, kills]) => (kills === 0 ? [point] : [])),
      neverReached: [...this.#offered].filter((operation) => !points.some(([point]) => point.startsWith(`${operation}:`))),
    }
  }

  /** Kills by point, of all roles. */
  #kills(): Map<string, number> {
    const sums = new Map<string, number>()
    for (const points of this.#points.values()) {
      for (const [name, { kills }] of points) sums.set(name, (sums.get(name) ?? 0) + kills)
    }
    return sums
  }

  #point(role: string, name: string): Point {
    const known = this.#points.get(role) ?? new Map<string, Point>()
    this.#points.set(role, known)
    const point = known.get(name) ?? { kills: 0, chosen: 0, isLater: false }
    known.set(name, point)
    return point
  }
}
