// An outage of Postgres is no failure of the code that has a transaction, see also src/sdk/transactions.test.ts.

import { expect, it } from "vitest"
import type { AttemptId } from "../../../core/model/ids.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import { UserTransactions } from "./record-in-transaction.ts"

it("a transaction that gets no connection rejects as every operation of the store", async () => {
  const refused = { url: "postgres://127.0.0.1:1/none", schema: "ork" }
  const transactions = new UserTransactions(refused, () => Promise.reject(new Error("nothing is read")))
  const attemptId = "6c1d7b1e-0000-4000-8000-000000000000" as AttemptId
  const step = { row: 1, attemptId, name: "pay", occurrence: 0, position: 0, failures: 0, startedAt: "2026-01-01T00:00:00Z" }
  const code = (): Promise<never> => Promise.reject(new Error("the code does not run"))
  await expect(transactions.record(step, code)).rejects.toThrow(StoreUnavailable)
  await transactions.close()
})
