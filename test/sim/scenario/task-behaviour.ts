// Plans what a fake task does from the seed and the task's identity, so that an attempt behaves the same in every replay.

import type { Json } from "../../../src/core/values/json.ts"
import { Rng } from "../rng.ts"
import type { FailureRates, SimNode } from "./workflows.ts"

export interface Behaviour {
  /** Milliseconds until the task reports its start; null: never. */
  startMs: number | null
  /** Milliseconds that the task works; null: until it is stopped. */
  workMs: number | null
  outcome: "success" | "failure" | "permanent failure"
  /** The retry delay that a failure asks for; null: none. */
  retryAfterMs: number | null
  /** How a stopped task ends, `ms` after the stop, unless it ends by itself before. */
  whenStopped: { ms: number; how: "obey" | "succeed" }
  /** When the task reports its start a second time. */
  repeatedStart: "never" | "soon" | "after the end"
  output: Json | undefined
}

interface Task {
  run: string
  path: string
  attempt: number
  /** The number of instances of its fan-out; null: it is in none. */
  count: number | null
}

const SHORT_TIMEOUT_MS = 30_000
/** In a fan-out of more instances, each is quick and succeeds. */
const MAX_VARIED_INSTANCES = 100

export const planBehaviour = (seed: number, rates: FailureRates, simNode: SimNode, task: Task): Behaviour => {
  const { node } = simNode
  const rng = new Rng("task", seed, task.run, node.name, task.path, task.attempt)
  const workMs = rng.chance(rates.slow) ? rng.int(500, rng.pick([5000, 5000, 40_000])) : rng.int(0, 200)
  const behaviour: Behaviour = {
    startMs: rng.pick([0, 0, rng.int(0, 50)]),
    workMs,
    outcome: rng.chance(rates.fail) ? (rng.chance(0.1) ? "permanent failure" : "failure") : "success",
    retryAfterMs: rng.chance(0.05) ? rng.int(0, 5000) : null,
    whenStopped: { ms: rng.pick([0, 0, rng.int(1, 500), rng.int(500, 8000)]), how: rng.chance(0.15) ? "succeed" : "obey" },
    repeatedStart: rng.chance(rates.odd) ? rng.pick(["soon", "after the end"]) : "never",
    output: makeOutput(rng, simNode, task),
  }
  if (task.count !== null && task.count > MAX_VARIED_INSTANCES) {
    const output = rng.chance(0.01) ? "x" : undefined
    return { ...behaviour, startMs: 0, workMs: rng.int(0, 20), outcome: "success", output, repeatedStart: "never" }
  }
  if (rng.chance(rates.odd)) behaviour.startMs = rng.chance(0.5) ? null : rng.int(50, 2000)
  if (rng.chance(rates.hang) && mayHang(behaviour.startMs, simNode)) {
    Object.assign(behaviour, { workMs: null, repeatedStart: "never" } satisfies Partial<Behaviour>)
  }
  return behaviour
}

/** Returns whether a timeout ends the attempt soon. */
const mayHang = (startMs: number | null, { node }: SimNode): boolean => {
  const timeoutMs = startMs === null ? node.startTimeoutMs : node.timeoutMs
  return timeoutMs !== null && timeoutMs <= SHORT_TIMEOUT_MS
}

const makeOutput = (rng: Rng, simNode: SimNode, task: Task): Json | undefined => {
  if (rng.chance(0.05)) return undefined
  if (rng.chance(0.03)) return rng.pick(["text", 7, [], null])
  return {
    from: simNode.node.name,
    path: task.path,
    attempt: task.attempt,
    n: rng.int(0, 4),
    items: Array.from({ length: rng.int(0, 4) }, () => rng.int(0, 99)),
    flag: rng.chance(0.6),
    ...(simNode.largeOutput && { large: "x".repeat(70_000) }),
  }
}
