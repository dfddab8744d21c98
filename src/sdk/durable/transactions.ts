// Runs code of a user in a transaction that also records the result of the code, so that its writes happen exactly once: a try that is
// repeated after its commit finds the result.

import { AsyncLocalStorage } from "node:async_hooks"
import type { Output } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { SqlTransaction, TransactionStep } from "../../store/contract/transactions.ts"
import { UnusableTransaction } from "../../store/contract/errors.ts"
import { CancelledError, TransactionError } from "../errors.ts"
import { type Journal, LostFunction } from "./journal.ts"

export interface TransactionCode {
  run(tx: SqlTransaction): Promise<Json>
  signal: AbortSignal
  readOutput(output: Output): Json | Promise<Json>
  writeOutput(step: { name: string; occurrence: number }, value: Json): Promise<Output>
}

export class Transactions {
  readonly #store: Pick<ServerStore, "recordInTransaction" | "kind">
  readonly #journal: Journal

  constructor(store: Pick<ServerStore, "recordInTransaction" | "kind">, journal: Journal) {
    this.#store = store
    this.#journal = journal
  }

  /** Returns the result of the code, or of an earlier try that was committed. */
  async run(step: TransactionStep, code: TransactionCode): Promise<Json> {
    let value: Json = null
    const isRecorded = await this.#store
      .recordInTransaction(step, async (tx) => {
        // The transaction may have waited for others.
        checkNotCancelled(code.signal)
        value = await inTransaction.run(this.#store.kind, () => code.run(tx))
        checkNotCancelled(code.signal)
        return await code.writeOutput(step, value)
      })
      .catch(asTransactionError)
    if (isRecorded) return value
    const earlier = await this.find(step)
    if (earlier === null) throw new LostFunction("the function runs elsewhere now, or has ended")
    return await code.readOutput(earlier)
  }

  /** Returns the output of a step that was committed; null: none was. */
  async find({ row, name, occurrence }: Pick<TransactionStep, "row" | "name" | "occurrence">): Promise<Output | null> {
    const { steps } = await this.#journal.load(row)
    const found = steps.find((step) => step.name === name && step.occurrence === occurrence && step.state === "success")
    return found === undefined ? null : (found.output ?? { inline: null })
  }
}

const checkNotCancelled = (signal: AbortSignal): void => {
  if (signal.aborted) throw new CancelledError("the function was cancelled: its transaction is rolled back")
}

const inTransaction = new AsyncLocalStorage<ServerStore["kind"]>()

/**
 * Throws inside a transaction on SQLite, which has one writer: an operation outside of the transaction would wait for its end, and the
 * transaction for the operation.
 */
export const checkNotInTransaction = (): void => {
  if (inTransaction.getStore() === "sqlite") {
    throw new TransactionError(
      "a transaction on SQLite excludes other operations: pass { tx } to enqueue, or do it after the transaction",
    )
  }
}

/** Turns the store's error into the one that users know. */
export const asTransactionError = (error: unknown): never => {
  if (error instanceof UnusableTransaction) throw new TransactionError(error.message, { cause: error })
  throw error
}
