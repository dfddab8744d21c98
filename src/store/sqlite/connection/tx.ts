// What every verb gets: the connection inside a transaction, the instant it stands for, and what was read before.

import { type Clock, iso, type Random } from "../../../core/model/ports.ts"
import type { StoreEvent } from "../../contract/store.ts"
import type { Database } from "./database.ts"
import type { InFlightRows } from "../cache/in-flight.ts"
import { LimitUsage } from "../claim/limits.ts"
import { QueueBudget } from "../claim/queue-budget.ts"
import { Results } from "../advance/results.ts"
import type { RunInfoCache } from "../cache/run-info.ts"
import type { Versions } from "../cache/versions.ts"

/** What lives as long as the store. */
export interface Session {
  db: Database
  clock: Clock
  random: Random
  versions: Versions
  runs: RunInfoCache
  inFlight: InFlightRows
}

/** How verbs are called: each write is one operation, acknowledged after its commit. */
export interface Access {
  read<T>(work: (session: Session) => T): Promise<T>
  write<T>(work: (tx: Tx) => T): Promise<T>
}

/** What lives as long as one operation. */
export interface Tx extends Session {
  /** Epoch milliseconds, and the same as text: the time of everything that this transaction writes. */
  now: number
  at: string
  /** An instant as text; results of one batch mostly share theirs. */
  iso: (ms: number) => string
  limits: LimitUsage
  queues: QueueBudget
  /** What rows came to in this transaction, by place: most of it is needed by the claims at its end. */
  results: Results
  events: StoreEvent[]
  /** Other processes on this file may have something to do after the commit. */
  wakeOthers: boolean
}

export const newTx = (session: Session): Tx => {
  const now = session.clock.now()
  const text = isoMemo()
  const limits = new LimitUsage(session.db)
  return {
    ...session,
    now,
    at: text(now),
    iso: text,
    limits,
    queues: new QueueBudget(session.db, limits, now),
    results: new Results(),
    events: [],
    wakeOthers: false,
  }
}

const isoMemo = (): ((ms: number) => string) => {
  let last = Number.NaN
  let text = ""
  return (ms) => {
    if (ms !== last) {
      last = ms
      text = iso(ms)
    }
    return text
  }
}
