// What a fake task does, decided by the seed and its place: the same attempt behaves the same in every replay.

import type { Json } from "../../../src/core/model/json.ts"
import { Rng } from "../rng.ts"
import type { Mood, SimNode } from "./workflows.ts"

export interface Behaviour {
  /** When it reports its start; null: never. */
  startMs: number | null
  /** How long it works; null: until it is stopped. */
  workMs: number | null
  outcome: "success" | "failed" | "hopeless"
  retryAfterMs: number | null
  /** Stopped: how long it goes on, and how it ends if it did not end by itself before. */
  abort: { ms: number; how: "obey" | "succeed" }
  /** Reports its start twice, or again after its end. */
  doubled: "no" | "start" | "late"
  output: Json | undefined
}

const SHORT_MS = 30_000
const HUGE = 100

export const behave = (
  seed: number,
  mood: Mood,
  sim: SimNode,
  place: { run: string; path: string; attempt: number; count: number | null },
): Behaviour => {
  const { node } = sim
  const rng = new Rng("task", seed, place.run, node.name, place.path, place.attempt)
  const workMs = rng.chance(mood.slow) ? rng.int(500, rng.pick([5000, 5000, 40_000])) : rng.int(0, 200)
  const behaviour: Behaviour = {
    startMs: rng.pick([0, 0, rng.int(0, 50)]),
    workMs,
    outcome: rng.chance(mood.fail) ? (rng.chance(0.1) ? "hopeless" : "failed") : "success",
    retryAfterMs: rng.chance(0.05) ? rng.int(0, 5000) : null,
    abort: { ms: rng.pick([0, 0, rng.int(1, 500), rng.int(500, 8000)]), how: rng.chance(0.15) ? "succeed" : "obey" },
    doubled: rng.chance(mood.odd) ? rng.pick(["start", "late"]) : "no",
    output: makeOutput(rng, sim, place),
  }
  if (place.count !== null && place.count > HUGE) {
    const output = rng.chance(0.01) ? "x" : undefined
    return { ...behaviour, startMs: 0, workMs: rng.int(0, 20), outcome: "success", output, doubled: "no" }
  }
  if (rng.chance(mood.odd)) behaviour.startMs = rng.chance(0.5) ? null : rng.int(50, 2000)
  if (rng.chance(mood.hang) && canHang(behaviour.startMs, sim)) Object.assign(behaviour, { workMs: null, doubled: "no" })
  return behaviour
}

/** Only what the clocks of its attempt end soon. */
const canHang = (startMs: number | null, { node }: SimNode): boolean => {
  const limit = startMs === null ? node.startTimeoutMs : node.timeoutMs
  return limit !== null && limit <= SHORT_MS
}

const makeOutput = (rng: Rng, sim: SimNode, place: { path: string; attempt: number }): Json | undefined => {
  if (rng.chance(0.05)) return undefined
  if (rng.chance(0.03)) return rng.pick(["text", 7, [], null])
  return {
    from: sim.node.name,
    path: place.path,
    attempt: place.attempt,
    n: rng.int(0, 4),
    items: Array.from({ length: rng.int(0, 4) }, () => rng.int(0, 99)),
    flag: rng.chance(0.6),
    ...(sim.largeOutput && { large: "x".repeat(70_000) }),
  }
}
