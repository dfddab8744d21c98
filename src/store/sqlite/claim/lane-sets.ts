// The lanes that a claim looks at, and their order. Lanes named exactly form one set, which is claimed by priority. For a
// wildcard, each lane with ready rows is a set of its own, and the sets alternate.

import {
  requirementOfLane,
  RESTRICTED_LANES,
  wildcardRequirements,
  wildcardRange,
  isExactLane,
} from "../../../core/routing/lanes.ts"
import { MAX_SERVED } from "../../shared/bounds.ts"
import { READY } from "./ready-queue.ts"
import type { Tx } from "../tx.ts"

/** Position at which the last claim of a kind stopped: the next claim starts after this lane and these workflows. */
export interface ClaimCursor {
  lane: string
  /** Last lane of restricted work. */
  restricted: string
  /** Last workflow by the first lane of its set. */
  workflows: Map<string, number>
}

export const newClaimCursor = (): ClaimCursor => ({ lane: "", restricted: "", workflows: new Map() })

export const lastWorkflow = (cursor: ClaimCursor, lanes: readonly string[]): number => cursor.workflows.get(lanes[0]!) ?? 0

const MAX_CACHED = 1000

export const setLastWorkflow = (cursor: ClaimCursor, lanes: readonly string[], workflowId: number): void => {
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

interface LaneRing {
  from: string
  to: string
  /** Lane that was served last. */
  last: string
}

/** Returns lanes with ready rows whose queue allows a start, at most MAX_SERVED, beginning after the last one served. */
const openLanes = (tx: Tx, { from, to, last }: LaneRing, accepts: (lane: string) => boolean): string[] => {
  const start = last > from && last < to ? last : from
  const found: string[] = []
  for (const [after, upTo] of [
    [start, to],
    [from, start],
  ] as const)
    for (let [lane] = readyLanes(tx, after, upTo, 1); lane !== undefined; [lane] = readyLanes(tx, lane, upTo, 1)) {
      if (!accepts(lane)) continue
      if (tx.queues.available(lane) === 0) tx.queues.noteUnclaimed(lane)
      else if (found.push(lane) === MAX_SERVED) return found
    }
  return found
}

/** Lanes that are claimed together, by priority. `cursor`: the position that remembers the last one served; none for named lanes. */
export interface LaneSet {
  lanes: readonly string[]
  cursor?: "lane" | "restricted"
}

/** Returns the sets of lanes to claim from. `isPartial`: there may be more lanes than the bound allows. */
export const laneSets = (tx: Tx, lanes: readonly string[], cursor: ClaimCursor): { sets: LaneSet[]; isPartial: boolean } => {
  const range = wildcardRange(lanes)
  const requirements = new Set(wildcardRequirements(lanes))
  const named = lanes.filter(isExactLane)
  const restricted =
    requirements.size === 0
      ? []
      : openLanes(tx, { ...RESTRICTED_LANES, last: cursor.restricted }, (lane) => requirements.has(requirementOfLane(lane)))
  const found = range === null ? [] : openLanes(tx, { ...range, last: cursor.lane }, (lane) => !named.includes(lane))
  const sets: LaneSet[] = [
    ...(named.length === 0 ? [] : [{ lanes: named }]),
    ...restricted.map((lane) => ({ lanes: [lane], cursor: "restricted" }) as const),
    ...found.map((lane) => ({ lanes: [lane], cursor: "lane" }) as const),
  ]
  return { sets, isPartial: found.length === MAX_SERVED || restricted.length === MAX_SERVED }
}
