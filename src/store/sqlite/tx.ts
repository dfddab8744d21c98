// Context of one operation of the store, such as an `advance` or the creation of jobs: the connection inside the transaction, its time, and
// what was read before. The writer commits several operations in one transaction (connection/writer.ts).

import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import type { StoreEvent } from "../contract/store.ts"
import type { Database } from "./connection/database.ts"
import type { InFlightRows } from "./cache/in-flight.ts"
import { LimitUsage } from "./cache/limits.ts"
import { QueueBudgets } from "./cache/queue-budget.ts"
import { Results } from "./cache/results.ts"
import type { RunInfoCache } from "./cache/run-info.ts"
import type { Workflows } from "./cache/workflows.ts"
import { WakeDecision } from "./connection/wake-decision.ts"

/** State that lives as long as the store. */
export interface StoreContext {
  db: Database
  clock: Clock
  random: Random
  workflows: Workflows
  runs: RunInfoCache
  inFlight: InFlightRows
}

/** Runs operations. Each write is one operation, acknowledged after its commit. */
export interface Access {
  read<T>(work: (context: StoreContext) => T): Promise<T>
  write<T>(work: (tx: Tx) => T): Promise<T>
}

/** State that lives as long as one operation. */
export interface Tx extends StoreContext {
  /** Time of everything that the operation writes, in epoch milliseconds. */
  now: number
  /** `now` as text. */
  at: string
  /** Formats an instant. It remembers those before, which results of a batch mostly share. */
  iso: (ms: number) => string
  limits: LimitUsage
  queues: QueueBudgets
  results: Results
  events: StoreEvent[]
  wake: WakeDecision
}

/** `wake`: continues the decision of the operations before it in the transaction. */
export const newTx = (context: StoreContext, wake = new WakeDecision()): Tx => {
  const now = context.clock.now()
  const format = isoMemo()
  const limits = new LimitUsage(context.db)
  return {
    ...context,
    now,
    at: format(now),
    iso: format,
    limits,
    queues: new QueueBudgets(context.db, limits, now),
    results: new Results(),
    events: [],
    wake,
  }
}

const isoMemo = (): ((ms: number) => string) => {
  const texts = new Map<number, string>()
  return (ms) => {
    let text = texts.get(ms)
    if (text === undefined) texts.set(ms, (text = iso(ms)))
    return text
  }
}
