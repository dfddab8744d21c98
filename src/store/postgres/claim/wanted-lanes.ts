// The lanes that a claim asks for, in its statements: named lanes, a range of lanes (`q:*`, `s:*`), and the lanes of restricted work with
// one of the requirements, in every queue (`f:*|NAME`).

import { isExactLane, RESTRICTED_LANES, wildcardRange, wildcardRequirements } from "../../../core/routing/lanes.ts"

/** Returns the parameters of the statements. A null range asks for none. */
export const laneParams = (wanted: readonly string[]) => {
  const range = wildcardRange(wanted)
  return {
    lanes: wanted.filter(isExactLane),
    laneFrom: range?.from ?? null,
    laneTo: range?.to ?? null,
    requirements: wildcardRequirements(wanted),
  }
}

/** Condition: the claim asks for restricted work. */
export const WANTS_RESTRICTED = "cardinality(:requirements::text[]) > 0"

/** Returns the requirement of a lane of restricted work (`requirementOfLane`). */
export const REQUIREMENT_OF = (lane: string): string => `substr(${lane}, strpos(${lane}, '|') + 1)`

/** Returns the condition that the claim asks for this lane. */
export const IS_WANTED = (lane: string): string =>
  `(${lane} = ANY (:lanes::text[]) OR ${lane} > :laneFrom::text AND ${lane} < :laneTo::text
         OR ${lane} LIKE '${RESTRICTED_LANES.from}%' AND ${REQUIREMENT_OF(lane)} = ANY (:requirements::text[]))`

/** Selects the first lane with ready rows after a lane, within a bound on `q.lane`. */
const NEXT_LANE = (after: string, bound: string): string =>
  `SELECT q.lane FROM ready_queue q WHERE q.lane > ${after} AND ${bound} ORDER BY q.lane LIMIT 1`

/**
 * Returns a recursive CTE of the lanes with ready rows after a lane, in order. Skips from lane to lane; a reader with a LIMIT reads no
 * further.
 */
export const LANES_AFTER = (name: string, after: string, bound: string): string => `${name} AS (
       (${NEXT_LANE(after, bound)}) UNION ALL SELECT n.lane FROM ${name} r CROSS JOIN LATERAL (${NEXT_LANE("r.lane", bound)}) n
     )`

/** CTE of the lanes with ready rows in the range of the claim. */
export const LANES_OF_RANGE = LANES_AFTER("lanes_of_range", ":laneFrom::text", "q.lane < :laneTo::text")

/** CTE of all lanes of restricted work with ready rows, if the claim asks for restricted work. */
export const ALL_RESTRICTED_LANES = LANES_AFTER(
  "all_restricted_lanes",
  `'${RESTRICTED_LANES.from}'`,
  `${WANTS_RESTRICTED} AND q.lane < '${RESTRICTED_LANES.to}'`,
)

/** Two of ALL_RESTRICTED_LANES that the claim asks for: enough to know whether there is only one. */
export const TWO_RESTRICTED_LANES = `(
       SELECT r.lane FROM all_restricted_lanes r WHERE ${REQUIREMENT_OF("r.lane")} = ANY (:requirements::text[]) LIMIT 2
     )`
