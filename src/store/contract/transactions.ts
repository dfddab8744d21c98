// Transactions that contain writes of a user beside those of Ork, and commit or roll back both.

import type { AttemptId } from "../../core/model/ids.ts"
import type { Output } from "../../core/model/change.ts"
import type { JobRejection, JobRow, NewJob, OnKeyConflict } from "./jobs.ts"

/** A transaction as a client of `pg` has it. Values are `$1`, `$2`, … in the text. */
export interface SqlTransaction {
  query<Row = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>
}

/** A job that is created when the user's transaction commits, or the job that has its key. */
export type JobInTransaction = Pick<JobRow, "id" | "name" | "created" | "status" | "payload" | "attemptCount" | "error">

/** A step that is recorded in the same commit as the user's writes, under the fence of its attempt. */
export interface TransactionStep {
  row: number
  attemptId: AttemptId
  name: string
  occurrence: number
  position: number
  /** Number of failed tries. */
  failures: number
  startedAt: string
}

export interface TransactionStore {
  /**
   * Creates jobs, all or none, in the user's transaction. They exist and wake the engines when it commits. Throws UnusableTransaction.
   * A transaction of another kind of database is rejected, too.
   */
  createJobsIn(
    transaction: unknown,
    jobs: readonly NewJob[],
    onConflict: Exclude<OnKeyConflict, "replace">,
  ): Promise<JobInTransaction[] | JobRejection>
  /**
   * Runs `work` in a transaction and records its output as the result of the step in the same commit. Returns false, and rolls back, when
   * the attempt has lost its fence or the step has a result. When the reply to the commit is lost, it looks whether the step is recorded.
   */
  recordInTransaction(step: TransactionStep, work: (transaction: SqlTransaction) => Promise<Output>): Promise<boolean>
}
