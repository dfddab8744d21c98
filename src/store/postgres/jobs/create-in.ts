// Creates jobs in a transaction of the user: one call of the SQL function `enqueue` (schema/010-transactions.ts) by the user's driver.

import { messageOf } from "../../../core/values/error-message.ts"
import { formatDuration } from "../../../core/values/quantities.ts"
import { UnusableTransaction } from "../../contract/errors.ts"
import type { JobRejection, NewJob } from "../../contract/jobs.ts"
import type { JobInTransaction, SqlTransaction, TransactionStore } from "../../contract/transactions.ts"
import { keyColumn } from "../../shared/job-rows.ts"
import { replaceNul, textArrayParam } from "../connection/array-params.ts"
import { quoted } from "../connection/connection.ts"
import { literal } from "../connection/literal.ts"
import { statement } from "../connection/statement.ts"
import type { Access } from "../tx.ts"

const IDENTITY = statement("database_identity", "SELECT database_identity() AS identity")

interface EnqueuedRow {
  id: string
  created: boolean
  status: JobInTransaction["status"]
  payload: string | null
  attempts: number
  error: string | null
}

export const createJobsIn = ({ read }: Pick<Access, "read">, schema: string): TransactionStore["createJobsIn"] => {
  const enqueue = `SELECT id, created, status, payload, attempts, error FROM ${quoted(schema)}.enqueue`
  let identity: Promise<string> | null = null
  const findIdentity = async (): Promise<string> => {
    const [row] = await read((connection) => connection.run<{ identity: string }>(IDENTITY))
    return row!.identity
  }
  return async (transaction, jobs, onConflict) => {
    if (jobs.length === 0) return []
    if (!isSqlTransaction(transaction)) throw new UnusableTransaction(NO_CLIENT)
    identity ??= findIdentity()
    identity.catch(() => (identity = null))
    const payloads = textArrayParam(jobs.map(({ payload }) => JSON.stringify(payload)))
    const fields = JSON.stringify(
      jobs.map((job) => fieldsOf(job, onConflict)),
      storable,
    )
    const call = `${enqueue}(${[fields, payloads, await identity].map(literal).join(", ")})`
    try {
      const { rows } = await transaction.query<EnqueuedRow>(call)
      return rows.map((row, i) => toJob(row, jobs[i]!))
    } catch (error) {
      return rejectionOf(error)
    }
  }
}

const NO_CLIENT =
  "tx is not a transaction of Postgres: pass a client of pg after BEGIN, or a transaction of an adapter in ork/tx"

const isSqlTransaction = (value: unknown): value is SqlTransaction =>
  typeof value === "object" && value !== null && "query" in value && typeof value.query === "function"

/** Replaces what no text in Postgres can hold. */
const storable = (_: string, value: unknown): unknown => (typeof value === "string" ? replaceNul(value.toWellFormed()) : value)

const duration = (ms: number | null): string | undefined => (ms === null ? undefined : formatDuration(ms))

/** Returns the job as `enqueue` takes it. */
const fieldsOf = (job: NewJob, onConflict: string): object => ({
  id: job.id,
  name: job.name,
  queue: job.queue,
  task: job.task ?? undefined,
  priority: job.priority,
  retry: job.retry === null ? undefined : retryFields(job.retry),
  group: job.group ?? undefined,
  idempotency_key: keyColumn(job) ?? undefined,
  on_conflict: onConflict,
  run_at: job.runAt ?? undefined,
  delay: duration(job.delayMs),
  timeout: duration(job.timeoutMs),
  expires: duration(job.expiresMs),
  concurrency_key: job.concurrencyKey ?? undefined,
  concurrency_limit: job.concurrencyKey === null ? undefined : job.concurrencyLimit,
  limits: job.limits,
})

const retryFields = ({ maxAttempts, backoff, baseDelayMs, maxDelayMs, jitter }: NonNullable<NewJob["retry"]>): object => ({
  max_attempts: maxAttempts,
  backoff,
  base_delay: formatDuration(baseDelayMs),
  max_delay: formatDuration(maxDelayMs),
  jitter,
})

const toJob = ({ id, created, status, payload, attempts, error }: EnqueuedRow, { name, ...job }: NewJob): JobInTransaction => ({
  id,
  name,
  created,
  status,
  payload: payload === null ? job.payload : (JSON.parse(payload) as JobInTransaction["payload"]),
  attemptCount: attempts,
  error,
})

const BEGIN_FIRST =
  "tx is not in a transaction: call BEGIN on the client first. A pool has no transaction: take a client from it"

const NO_TABLES =
  "tx is a transaction on a database without tables of Ork: use a client of the database that Ork.open has opened"

/** Problems of a transaction, by SQLSTATE. */
const PROBLEMS: Readonly<Record<string, string>> = {
  ORK01: "tx is a transaction on another database than the one that Ork.open has opened: use a client of the same database",
  ORK02: BEGIN_FIRST,
  "3F000": NO_TABLES,
  "42883": NO_TABLES,
  "25P02": "tx is a transaction in which a statement has failed: roll it back and begin again",
  "25006": "tx is a transaction that can only read: begin one that can write",
}

const KEY_TAKEN = "ORK03"
const TAKEN_BY = /taken by job ([0-9a-f-]{36})/

/** Returns why the jobs were rejected, or throws. Errors of the database pass unchanged: the user's code may retry its transaction. */
const rejectionOf = (error: unknown): JobRejection => {
  const found = databaseError(error)
  if (found?.code === KEY_TAKEN) return { rejected: "key_exists", id: TAKEN_BY.exec(found.message)?.[1] ?? "" }
  const problem = found === null ? undefined : PROBLEMS[found.code]
  if (problem !== undefined) throw new UnusableTransaction(problem, { cause: error })
  if (found === null && CLOSED.test(messageOf(error))) {
    throw new UnusableTransaction(`tx cannot be used: its client is closed (${messageOf(error)})`, { cause: error })
  }
  throw error
}

/** Messages of drivers and libraries whose client is not connected, or whose transaction has ended. */
const CLOSED = /closed|not queryable|terminated|ended|released|completed|committed|rolled back/i

const SQL_STATE = /^[0-9A-Z]{5}$/

/** Returns the error of Postgres, also one that a library has wrapped; null: it is another error. */
const databaseError = (error: unknown): { code: string; message: string } | null => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = "code" in cause ? cause.code : null
    if (typeof code === "string" && SQL_STATE.test(code) && !PRISMA_CODE.test(code)) return { code, message: cause.message }
    const inner = "meta" in cause ? prismaError(cause.meta) : null
    if (inner !== null) return inner
  }
  return null
}

/** Codes of Prisma's own errors, whose `meta` contains the error of Postgres. */
const PRISMA_CODE = /^P[126]\d{3}$/

const prismaError = (meta: unknown): { code: string; message: string } | null => {
  const text = JSON.stringify(meta) ?? ""
  const code = /"(?:code|originalCode)":"([0-9A-Z]{5})"/.exec(text)?.[1]
  return code === undefined ? null : { code, message: text }
}
