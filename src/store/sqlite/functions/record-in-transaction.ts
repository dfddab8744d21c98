// Transactions in which a user's function writes, and Ork records the function's result. They run one after the other; nothing else writes
// or reads meanwhile, because the store has one connection.

import { iso } from "../../../core/model/ports.ts"
import { UnusableTransaction } from "../../contract/errors.ts"
import type { TransactionStore } from "../../contract/transactions.ts"
import type { Writer } from "../connection/writer.ts"
import type { StoreContext, Tx } from "../tx.ts"
import { recordSteps } from "./functions.ts"
import { SqliteTransaction } from "./sql-transaction.ts"

interface Deps {
  context: StoreContext
  writer: Pick<Writer, "writeAlone">
  /** Runs an operation inside the writer's transaction. */
  perform<T>(work: (tx: Tx) => T): T
  /** Wakes the engine of this process: the function may have created jobs. */
  committed(): void
}

/** Rolls back: the attempt has lost its fence, or the step has a result. */
class Rejected extends Error {}

export const recordInTransaction =
  ({ context: { db, clock }, writer, perform, committed }: Deps): TransactionStore["recordInTransaction"] =>
  async (step, work) => {
    try {
      await writer.writeAlone(async () => {
        const transaction = new SqliteTransaction(db)
        try {
          const output = await work(transaction)
          if (!transaction.open) throw new UnusableTransaction("the transaction has ended before its function")
          const finishedAt = iso(clock.now())
          const recorded = { kind: "tx", state: "success", error: null, details: null, output, finishedAt } as const
          if (perform((tx) => recordSteps(tx, [{ ...step, ...recorded }])).length > 0) throw new Rejected()
        } finally {
          transaction.close()
        }
      })
      committed()
      return true
    } catch (error) {
      if (error instanceof Rejected) return false
      throw error
    }
  }
