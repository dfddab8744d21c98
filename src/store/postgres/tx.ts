// The context of one transaction, which every step of a write gets: runs statements, and carries the instant, the caches and the
// events of the transaction.

import type { StoreEvent } from "../contract/store.ts"
import type { Cache } from "./cache/cache.ts"
import type { Workflows } from "./cache/workflows.ts"
import type { Transaction } from "./connection/connection-pool.ts"
import type { PlanAge } from "./connection/plan-age.ts"
import { hasParam, type SqlRunner } from "./connection/statement.ts"
import type { StoreClock } from "./connection/store-clock.ts"

/** Lives as long as the store. */
export interface StoreContext {
  clock: StoreClock
  workflows: Workflows
  cache: Cache
}

/** Returns a runner that binds the parameter `now` of every statement that has one. */
export const bindNow = (runner: SqlRunner, now: string | null): SqlRunner => ({
  run: (statement, params = {}) => runner.run(statement, hasParam(statement, "now") ? { ...params, now } : params),
})

/** Lives as long as one transaction. `run` binds the parameter `now` by itself. */
export interface Tx extends StoreContext, SqlRunner {
  /** Value of the parameter `now`: null for the database's clock. */
  now: string | null
  /** Events to be logged at the end of the transaction. */
  events: StoreEvent[]
  /** The age of the plans of its connection. */
  planAge: PlanAge
  /** Sends COMMIT. Its reply counts only if every statement before it succeeded: await those first. */
  commit(): Promise<unknown>
}

export const newTx = (transaction: Transaction, context: StoreContext): Tx => {
  const now = context.clock.now()
  return {
    ...context,
    now,
    events: [],
    planAge: transaction.planAge,
    ...bindNow(transaction, now),
    commit: () => transaction.commit(),
  }
}

/** Access of the parts of the store to the database. Statements get their parameter `now` by themselves. */
export interface Access {
  read<T>(work: (connection: SqlRunner) => Promise<T>): Promise<T>
  /** Runs `work` in one transaction. */
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Runs `work` like `write`, when it makes no change that belongs in the audit log. */
  unauditedWrite<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Runs `work` in one transaction that may give other stores work, and wakes them. */
  writeAndNotify<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  workflows: Workflows
}
