// The claims of a turn, for the gate and for work. Claims are sent together with the turn's changes; what they cannot decide alone is
// claimed afterwards: rows under limits, lower priorities, queues with settings.

import { hasWildcard } from "../../../core/routing/lanes.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import type { Batch } from "../../contract/store.ts"
import type { Tx } from "../tx.ts"
import { type ClaimKind, type ClaimReply, type ClaimRequest, claimRequest } from "./candidates.ts"
import { claimHead } from "./claim-head.ts"
import { admitRows, rowsOfReply } from "./claim-limited.ts"
import { QueueClaims } from "./claim-queues.ts"
import { claimRoundRobin } from "./claim-round-robin.ts"
import { type ClaimedRow, needsNoAdmission } from "./claimed-row.ts"

export interface TurnClaims {
  gates: ClaimedRow[]
  work: ClaimedRow[]
  /** More rows can be claimed. */
  more: boolean
  /** Milliseconds until the rate of a queue lets more of it start, or null. */
  rateWaitMs: number | null
  /** Rows were enqueued that the changes of the turn did not make ready. */
  unparked: boolean
}

export const NOTHING_CLAIMED: TurnClaims = { gates: [], work: [], more: false, rateWaitMs: null, unparked: false }

/** Claims that were sent; null: not sent. */
export interface SentClaims {
  gate: Promise<ClaimReply[]> | null
  work: Promise<ClaimReply[]> | null
}

/** Claims of one connection. Remembers the workflow and lane that were served last, and which statement to try first. */
export class Claims {
  readonly #gate = new KindClaims("gate")
  readonly #work = new KindClaims("work")
  readonly #queues = new QueueClaims()

  /** Whether work is claimed by queue, which takes further round trips, rather than by the claims that `send` sends. */
  get byQueue(): boolean {
    return this.#work.byQueue
  }

  /** Sends the claims of these kinds. */
  send(tx: Tx, batch: Batch, kinds: { gate: boolean; work: boolean }): SentClaims {
    const send = (claims: KindClaims, request: Batch["work"]): Promise<ClaimReply[]> | null =>
      request.maxClaims > 0 && request.lanes.length > 0 ? claims.send(tx, claimRequest(batch.holder, request)) : null
    return {
      gate: kinds.gate ? send(this.#gate, batch.gate) : null,
      work: kinds.work && !this.byQueue ? send(this.#work, batch.work) : null,
    }
  }

  /** Reads the replies of `send`, and claims what they leave undecided. */
  async complete(tx: Tx, batch: Batch, sent: SentClaims): Promise<TurnClaims> {
    const { holder } = batch
    const gate = sent.gate === null ? NONE : await this.#gate.complete(tx, await sent.gate, claimRequest(holder, batch.gate))
    const work = sent.work === null ? NONE : await this.#work.complete(tx, await sent.work, claimRequest(holder, batch.work))
    return { gates: gate.claimed, work: work.claimed, more: gate.more || work.more, rateWaitMs: null, unparked: work.unparked }
  }

  /** Claims what became ready after `claimed`, up to the limits of the batch. */
  async claimRest(tx: Tx, batch: Batch, claimed: TurnClaims): Promise<TurnClaims> {
    const { holder, gate, work } = batch
    const remaining = {
      ...batch,
      gate: { ...gate, maxClaims: gate.maxClaims - claimed.gates.length },
      work: { ...work, maxClaims: work.maxClaims - claimed.work.length },
    }
    const next = await this.complete(tx, remaining, this.send(tx, remaining, { gate: true, work: true }))
    const maxClaims = remaining.work.maxClaims - next.work.length
    const byQueue = this.byQueue ? await this.#queues.claim(tx, { holder, lanes: work.lanes, maxClaims }) : null
    if (byQueue?.headIsEnough === true) this.#work.byQueue = false
    const queued = byQueue?.claimed ?? []
    return {
      gates: [...claimed.gates, ...next.gates],
      work: [...claimed.work, ...next.work, ...queued],
      more: next.more || byQueue?.more === true,
      rateWaitMs: byQueue?.rateWaitMs ?? null,
      // Claims by queue unpark rows as limits allow.
      unparked: claimed.unparked || next.unparked || queued.length > 0,
    }
  }
}

interface KindClaimed {
  claimed: ClaimedRow[]
  more: boolean
  unparked: boolean
}

const NONE: KindClaimed = { claimed: [], more: false, unparked: false }

class KindClaims {
  readonly #kind: ClaimKind
  /** The workflow that was served last. */
  #lastWorkflow = 0
  /** Whether several workflows or lanes had ready rows at the last claim. */
  #needsRoundRobin = false
  /** Whether queues have settings, or several queues need round robin (claim-queues.ts). */
  byQueue = false

  constructor(kind: ClaimKind) {
    this.#kind = kind
  }

  send(tx: Tx, request: ClaimRequest): Promise<ClaimReply[]> {
    return this.#needsRoundRobin && !hasWildcard(request.lanes)
      ? claimRoundRobin(tx, this.#kind, request, { lastWorkflow: this.#lastWorkflow })
      : claimHead(tx, this.#kind, request)
  }

  /**
   * Reads the reply, and claims again, from lower priorities and in place of parked rows, until the request is met, no row is left, or
   * the turn has looked at MAX_CANDIDATES.
   */
  async complete(tx: Tx, first: readonly ClaimReply[], request: ClaimRequest): Promise<KindClaimed> {
    const claimed: ClaimedRow[] = []
    let candidates = 0
    let unparked = false
    for (let reply = first; ; reply = await this.send(tx, { ...request, maxClaims: request.maxClaims - claimed.length })) {
      const rows = await rowsOfReply(tx, reply)
      const method = this.#methodAfter(reply[0]!, rows, request)
      if (method === "by_queue") return { claimed, more: false, unparked }
      if (method === "round_robin") continue
      candidates += rows.length
      const admitted = await admitRows(tx, rows, request.holder)
      claimed.push(...admitted.claimed)
      unparked ||= admitted.unparked
      this.#lastWorkflow = admitted.claimed.at(-1)?.workflow_id ?? this.#lastWorkflow
      const { more } = reply[0]!
      if (claimed.length >= request.maxClaims) return { claimed, more: false, unparked }
      if (rows.length === 0) return { claimed, more, unparked }
      if (!more && rows.every(needsNoAdmission)) return { claimed, more: false, unparked }
      if (admitted.hasLockedRows || candidates >= MAX_CANDIDATES) return { claimed, more: true, unparked }
    }
  }

  /** Returns how a reply says that its rows have to be claimed instead, or "as_read", and remembers it for the next claim. */
  #methodAfter(
    { more, needs_round_robin, queue_settings }: ClaimReply,
    rows: readonly ClaimedRow[],
    { lanes }: ClaimRequest,
  ): "by_queue" | "round_robin" | "as_read" {
    if (queue_settings || (needs_round_robin && hasWildcard(lanes))) {
      this.byQueue = true
      return "by_queue"
    }
    if (needs_round_robin) {
      this.#needsRoundRobin = true
      return "round_robin"
    }
    if (rows.length > 0) this.#needsRoundRobin = more || rows.some((row) => row.workflow_id !== rows[0]!.workflow_id)
    return "as_read"
  }
}
