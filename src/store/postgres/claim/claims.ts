// What a turn takes, for the gate and for work: first the short way, sent with the turn's changes; where queues have settings, or
// take turns, by the longer one.

import { wildcardFunctions } from "../../../core/routing/lanes.ts"
import { iso } from "../../../core/model/ports.ts"
import type { Batch } from "../../contract/store.ts"
import { type Answer, Claims } from "./claim.ts"
import type { ClaimedRow } from "./claimed-row.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import { QueueClaims } from "./queue-claim.ts"
import type { SqlRunner } from "../connection/connection.ts"

interface Sent {
  gate: Promise<Answer[]> | null
  claim: Promise<Answer[]> | null
}

export interface Taking {
  gates: ClaimedRow[]
  claims: ClaimedRow[]
  more: boolean
  /** The instant of the transaction, if the claim was asked. */
  at: string | null
  /** Milliseconds until the rate of a queue lets more of it start, or null. */
  waitMs: number | null
  /** Rows were listed beside those that the changes have made ready. */
  unparked: boolean
}

export class Takes {
  readonly #gates: Claims
  readonly #work: Claims
  readonly #queued: QueueClaims

  constructor(instants: StoreClock) {
    this.#gates = new Claims("gate", instants)
    this.#work = new Claims("claim", instants)
    this.#queued = new QueueClaims(instants)
  }

  /** Work is claimed by the longer way. */
  get general(): boolean {
    return this.#work.general
  }

  /** `shared`: what the changes of this batch took is part of what it may take. */
  send(tx: SqlRunner, batch: Batch, now: string | null, { gates = true, shared = false } = {}): Sent {
    const { holder, gate, claim } = batch
    // The short way knows no lanes of calls but those that are named.
    if (wildcardFunctions(claim.lanes).length > 0) this.#work.general = true
    const send = (claims: Claims, { lanes, limit }: Batch["gate"], less = false): Promise<Answer[]> | null =>
      limit > 0 && lanes.length > 0 ? claims.send(tx, { holder, lanes, limit }, now, less) : null
    return { gate: gates ? send(this.#gates, gate) : null, claim: this.general ? null : send(this.#work, claim, shared) }
  }

  async read(tx: SqlRunner, batch: Batch, sent: Sent, now: string | null): Promise<Taking> {
    const { holder } = batch
    const gate = sent.gate === null ? NONE : await this.#gates.finish(tx, await sent.gate, { holder, ...batch.gate }, now)
    const claim = sent.claim === null ? NONE : await this.#work.finish(tx, await sent.claim, { holder, ...batch.claim }, now)
    const at = sent.claim === null ? null : iso((await sent.claim)[0]!.now)
    return { gates: gate.taken, claims: claim.taken, more: gate.more || claim.more, at, waitMs: null, unparked: claim.unparked }
  }

  /** What is ready beside `taking`. */
  async more(tx: SqlRunner, batch: Batch, taking: Taking, now: string | null): Promise<Taking> {
    const rest = {
      ...batch,
      gate: { ...batch.gate, limit: batch.gate.limit - taking.gates.length },
      claim: { ...batch.claim, limit: batch.claim.limit - taking.claims.length },
    }
    const next = await this.read(tx, rest, this.send(tx, rest, now), now)
    const claims = [...taking.claims, ...next.claims]
    const wish = { holder: batch.holder, ...batch.claim, limit: batch.claim.limit - claims.length }
    const queued = this.general ? await this.#queued.take(tx, wish, now) : NOT_QUEUED
    if (queued.settled) this.#work.general = false
    return {
      gates: [...taking.gates, ...next.gates],
      claims: [...claims, ...queued.taken],
      more: next.more || queued.more,
      at: next.at ?? taking.at,
      waitMs: queued.waitMs,
      // Under settings of queues rows come and go by their limits.
      unparked: taking.unparked || next.unparked || queued.taken.length > 0,
    }
  }
}

export const NOTHING_TAKEN: Taking = { gates: [], claims: [], more: false, at: null, waitMs: null, unparked: false }
const NOT_QUEUED = { taken: [], more: false, waitMs: null, settled: false }
const NONE = { taken: [], more: false, unparked: false }
