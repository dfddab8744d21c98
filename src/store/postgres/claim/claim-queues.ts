// Claims from queues with settings, and from all queues by round robin. The named lanes have one position: their highest priority comes
// first. For a wildcard each lane with ready rows has a position of its own, and positions alternate. A queue's pause, concurrency and rate
// hold back its lanes as a whole: they are not read further.

import { hasWildcard, isRestrictedLane } from "../../../core/routing/lanes.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import type { ClaimRequest } from "./candidates.ts"
import { admitRows, rowsOfReply } from "./claim-limited.ts"
import { claimRoundRobin } from "./claim-round-robin.ts"
import { type ClaimedRow, needsNoAdmission } from "./claimed-row.ts"
import { mayHaveMoreLanes, type Lane, QueueBudgets, readLanes } from "./queue-budget.ts"
import { lockTasksForWrite } from "./queue-limits.ts"

export interface QueueClaimed {
  claimed: ClaimedRow[]
  more: boolean
  /** Milliseconds until the rate of a queue lets more of it start, or null. */
  rateWaitMs: number | null
  /** No queue has settings or needed round robin: the next claim may come from the head of the ready queue. */
  headIsEnough: boolean
}

export class QueueClaims {
  /** The workflow and the lanes that were served last. */
  #last = { workflow: 0, lane: "", restricted: "" }

  async claim(tx: Tx, request: ClaimRequest): Promise<QueueClaimed> {
    if (request.maxClaims <= 0) return { claimed: [], more: false, rateWaitMs: null, headIsEnough: false }
    const tableLocked = lockTasksForWrite(tx)
    const lanes = await readLanes(tx, request.lanes, this.#last)
    await tableLocked
    const budget = await QueueBudgets.open(tx, lanes)
    const { claimed, more, candidates } = await this.#claimWithin(tx, request, lanes, budget)
    await budget.save(tx)
    this.#last.workflow = claimed.at(-1)?.workflow_id ?? this.#last.workflow
    for (const { lane } of claimed) this.#last[isRestrictedLane(lane) ? "restricted" : "lane"] = lane
    const workflows = new Set(claimed.map((row) => row.workflow_id))
    // Without a lane, it is not known whether queues have settings.
    const isSettled = lanes.length === 0 || lanes.length > 1 || workflows.size > 1 || lanes[0]!.settings
    const usedRoundRobin = hasWildcard(request.lanes) && isSettled
    // The next claim reads on behind the lanes whose rows this one claimed or parked.
    const lanesLeft = candidates > 0 && claimed.length < request.maxClaims && mayHaveMoreLanes(lanes)
    return {
      claimed,
      more: more || lanesLeft || budget.missed,
      rateWaitMs: await rateWaitMs(tx, budget, lanes),
      headIsEnough: !budget.any && !usedRoundRobin,
    }
  }

  /** Claims until the request is met, no lane has budget or rows left, or the turn has looked at MAX_CANDIDATES. */
  async #claimWithin(
    tx: Tx,
    request: ClaimRequest,
    lanes: readonly Lane[],
    budget: QueueBudgets,
  ): Promise<{ claimed: ClaimedRow[]; more: boolean; candidates: number }> {
    const claimed: ClaimedRow[] = []
    for (let candidates = 0; ;) {
      const open = lanes
        .map((lane) => ({ ...lane, available: budget.available(lane) }))
        .filter(({ available }) => available > 0)
      if (open.length === 0) return { claimed, candidates, more: false }
      const remaining = { ...request, maxClaims: request.maxClaims - claimed.length }
      const reply = await claimRoundRobin(tx, "work", remaining, { lanes: open, lastWorkflow: this.#last.workflow })
      const rows = await rowsOfReply(tx, reply)
      candidates += rows.length
      const admitted = await admitRows(tx, rows, request.holder)
      claimed.push(...admitted.claimed)
      for (const row of admitted.claimed) budget.use(row.lane)
      const more = reply[0]!.more
      if (claimed.length >= request.maxClaims) return { claimed, candidates, more: false }
      if (rows.length === 0) return { claimed, candidates, more }
      if (!more && rows.every(needsNoAdmission)) return { claimed, candidates, more: false }
      if (admitted.hasLockedRows || candidates >= MAX_CANDIDATES) return { claimed, candidates, more: true }
    }
  }
}

const READY_LANES = statement(
  "queues_ready_lanes",
  `SELECT l.lane FROM unnest(:lanes::text[]) AS l (lane)
   WHERE EXISTS (SELECT 1 FROM ready_queue q WHERE q.lane = l.lane)`,
)

/** Returns the milliseconds until the first queue that is out of tokens, and has ready rows, has one again; null: there is none. */
const rateWaitMs = async (tx: Tx, budget: QueueBudgets, lanes: readonly Lane[]): Promise<number | null> => {
  const spent = lanes.filter((lane) => budget.waitMs(lane) !== null)
  if (spent.length === 0) return null
  const rows = await tx.run<{ lane: string }>(READY_LANES, { lanes: spent.map(({ lane }) => lane) })
  const ready = new Set(rows.map(({ lane }) => lane))
  const waits = spent.flatMap((lane) => (ready.has(lane.lane) ? budget.waitMs(lane)! : []))
  return waits.length === 0 ? null : Math.min(...waits)
}
