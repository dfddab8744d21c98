// The lanes that a claim looks at, and their order. Lanes named exactly form one group, which is claimed by priority. For a
// wildcard, each lane with ready rows is a group of its own, and the groups take turns.

import { functionOfLane, FUNCTION_LANES, wildcardFunctions, wildcardRange, isExactLane } from "../../../core/routing/lanes.ts"
import { MAX_CALL_LANES, MAX_GROUPS } from "../../shared/bounds.ts"
import { READY } from "./ready-queue.ts"
import type { Tx } from "../tx.ts"

/** Where the last claim of a kind stopped: the next claim starts after this lane and these workflows. */
export interface RoundRobin {
  lane: string
  /** Last workflow by the first lane of its group. */
  workflows: Map<string, number>
}

export const newRoundRobin = (): RoundRobin => ({ lane: "", workflows: new Map() })

export const lastWorkflow = (cursor: RoundRobin, lanes: readonly string[]): number => cursor.workflows.get(lanes[0]!) ?? 0

const MAX_CACHED = 1000

export const setLastWorkflow = (cursor: RoundRobin, lanes: readonly string[], workflowId: number): void => {
  if (cursor.workflows.size >= MAX_CACHED) cursor.workflows.clear()
  cursor.workflows.set(lanes[0]!, workflowId)
}

const NEXT_LANE = `
SELECT lane FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane > ? AND lane <= ? ORDER BY lane LIMIT 1`

/** Returns the lanes with ready rows in this range, in order, at most `limit`. */
export const readyLanes = (tx: Tx, after: string, upTo: string, limit: number): string[] => {
  const found: string[] = []
  for (let last = after; found.length < limit;) {
    const next = tx.db.get<[string]>(NEXT_LANE, last, upTo)
    if (next === undefined) break
    found.push((last = next[0]))
  }
  return found
}

/** Returns the lanes with calls of these functions. It skips lanes of other functions one by one, up to a bound. */
const callLanes = (tx: Tx, functions: readonly string[]): string[] =>
  functions.length === 0
    ? []
    : readyLanes(tx, FUNCTION_LANES.from, FUNCTION_LANES.to, MAX_CALL_LANES)
        .filter((lane) => functions.includes(functionOfLane(lane)))
        .slice(0, MAX_GROUPS)

/** Returns the groups of lanes to claim from. `isPartial`: there may be more lanes than the bound allows. */
export const laneGroups = (
  tx: Tx,
  lanes: readonly string[],
  cursor: RoundRobin,
): { groups: (readonly string[])[]; isPartial: boolean } => {
  const range = wildcardRange(lanes)
  const named = lanes.filter(isExactLane)
  const calls = callLanes(tx, wildcardFunctions(lanes)).map((lane) => [lane])
  if (range === null)
    return { groups: [...(named.length > 0 ? [named] : []), ...calls], isPartial: calls.length === MAX_GROUPS }
  const { from, to } = range
  const start = cursor.lane > from && cursor.lane < to ? cursor.lane : from
  const found = readyLanes(tx, start, to, MAX_GROUPS)
  if (start !== from) found.push(...readyLanes(tx, from, start, MAX_GROUPS - found.length))
  const groups: (readonly string[])[] = [...calls, ...found.filter((lane) => !named.includes(lane)).map((lane) => [lane])]
  if (named.length > 0) groups.unshift(named)
  return { groups, isPartial: found.length === MAX_GROUPS || calls.length === MAX_GROUPS }
}
