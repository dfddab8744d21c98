// Which lanes a claim looks at, and in which order. Lanes that are named are one group: the highest priority among them first.
// For "every queue" each lane with ready rows is a group of its own, and the groups take turns.

import { functionOfLane, FUNCTION_LANES, wildcardFunctions, wildcardRange, isExactLane } from "../../../core/routing/lanes.ts"
import { MAX_CALL_LANES, MAX_GROUPS } from "../../shared/bounds.ts"
import { READY } from "./ready-queue.ts"
import type { Tx } from "../connection/tx.ts"

/** What was served last, per kind of claim: the next one goes on after it. */
export interface RoundRobin {
  lane: string
  /** The workflow served last, by the first lane of its group. */
  workflows: Map<string, number>
}

export const newRoundRobin = (): RoundRobin => ({ lane: "", workflows: new Map() })

export const workflowTurn = (turn: RoundRobin, lanes: readonly string[]): number => turn.workflows.get(lanes[0]!) ?? 0

const REMEMBERED = 1000

export const served = (turn: RoundRobin, lanes: readonly string[], workflowId: number): void => {
  if (turn.workflows.size >= REMEMBERED) turn.workflows.clear()
  turn.workflows.set(lanes[0]!, workflowId)
}

const NEXT_LANE = `
SELECT lane FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane > ? AND lane <= ? ORDER BY lane LIMIT 1`

export const readyLanes = (tx: Tx, after: string, upTo: string, most: number): string[] => {
  const found: string[] = []
  for (let last = after; found.length < most;) {
    const next = tx.db.get<[string]>(NEXT_LANE, last, upTo)
    if (next === undefined) break
    found.push((last = next[0]))
  }
  return found
}

/** Lanes with calls of these functions. Those of others are passed over: there are as many as functions in use, times queues. */
const callLanes = (tx: Tx, names: readonly string[]): string[] =>
  names.length === 0
    ? []
    : readyLanes(tx, FUNCTION_LANES.from, FUNCTION_LANES.to, MAX_CALL_LANES)
        .filter((lane) => names.includes(functionOfLane(lane)))
        .slice(0, MAX_GROUPS)

/** `cut`: there may be more lanes than were looked at. */
export const laneGroups = (
  tx: Tx,
  lanes: readonly string[],
  turn: RoundRobin,
): { groups: (readonly string[])[]; cut: boolean } => {
  const every = wildcardRange(lanes)
  const named = lanes.filter(isExactLane)
  const calls = callLanes(tx, wildcardFunctions(lanes)).map((lane) => [lane])
  if (every === null) return { groups: [...(named.length > 0 ? [named] : []), ...calls], cut: calls.length === MAX_GROUPS }
  const { from, to } = every
  const start = turn.lane > from && turn.lane < to ? turn.lane : from
  const found = readyLanes(tx, start, to, MAX_GROUPS)
  if (start !== from) found.push(...readyLanes(tx, from, start, MAX_GROUPS - found.length))
  const groups: (readonly string[])[] = [...calls, ...found.filter((lane) => !named.includes(lane)).map((lane) => [lane])]
  if (named.length > 0) groups.unshift(named)
  return { groups, cut: found.length === MAX_GROUPS || calls.length === MAX_GROUPS }
}
