// What really happened, told by the fake executors and by the commits that passed through the store's door; never by the
// engine. Checks that must hold at the instant of a launch are in launch-rules.ts.

import type { AttemptResult } from "../../../src/core/model/change.ts"
import type { AttemptState } from "../../../src/core/model/status.ts"
import type { SimNode, SimWorkflow } from "../scenario/workflows.ts"

/** One life of an engine: from its start to its crash or its orderly end. */
export interface Incarnation {
  name: string
  engine: number
  alive: boolean
  draining: boolean
}

/** One task or instance of a run. */
export interface Place {
  runId: string
  run: string
  workflow: SimWorkflow
  sim: SimNode
  path: string
}

export interface Witnessed extends Place {
  id: string
  number: number
  incarnation: Incarnation
  /** Under which id its engine claimed it. */
  holder: string | null
  launchedAt: number
  live: boolean
  stopped: boolean
  startedAt: number | null
  key: string | null
  result: AttemptResult | null
}

/** What was committed about a place since its run began or a user retried it. */
export interface History {
  launches: Witnessed[]
  /** Attempts by the change that ended them. */
  applied: { id: string; kind: "finish" | "retry"; state: AttemptState; at: number; retryAfterMs: number | null }[]
  succeeded: boolean
}

export const placeKey = (runId: string, node: number, path: string): string => `${runId}/${node}/${path}`

export const placeText = (place: Place): string => `${place.run}/${place.sim.node.name}${place.path && `[${place.path}]`}`

export class Witness {
  readonly attempts = new Map<string, Witnessed>()
  readonly live = new Set<Witnessed>()
  readonly #histories = new Map<string, History>()

  history(runId: string, node: number, path: string): History {
    const key = placeKey(runId, node, path)
    let history = this.#histories.get(key)
    if (history === undefined) {
      history = { launches: [], applied: [], succeeded: false }
      this.#histories.set(key, history)
    }
    return history
  }

  launched(attempt: Witnessed): void {
    const node = attempt.sim.index
    this.attempts.set(attempt.id, attempt)
    this.live.add(attempt)
    this.history(attempt.runId, node, attempt.path).launches.push(attempt)
  }

  ended(attempt: Witnessed, result: AttemptResult): void {
    attempt.live = false
    attempt.result = result
    this.live.delete(attempt)
  }

  /** Its processes die with it. */
  crashed(incarnation: Incarnation): void {
    for (const attempt of this.live) {
      if (attempt.incarnation !== incarnation) continue
      attempt.live = false
      this.live.delete(attempt)
    }
  }

  /** A user's retry: these places begin anew. An empty path stands for all instances. */
  forget(runId: string, node: number, path: string | null): void {
    const key = placeKey(runId, node, path ?? "")
    if (path !== null) {
      this.#histories.delete(key)
      return
    }
    for (const known of this.#histories.keys()) if (known.startsWith(key)) this.#histories.delete(known)
  }
}
