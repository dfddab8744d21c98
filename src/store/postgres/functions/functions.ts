// Steps and signals of durable functions.

import type { CallStep } from "../../../core/model/function-signals.ts"
import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import { indexKey } from "../../../core/values/index-key.ts"
import type { Json } from "../../../core/values/json.ts"
import { isRunClosed, type RunStatus } from "../../../core/model/status.ts"
import type { FunctionState, FunctionStore, NewSignal, NewStep, SignalOutcome, Step } from "../../contract/functions.ts"
import { outputColumns, outputOf } from "../../shared/codec.ts"
import { requestResume } from "../advance/waiting.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Access, Tx } from "../tx.ts"

export const functionStore = ({ read, unauditedWrite, writeAndNotify }: Access): FunctionStore => ({
  loadFunctions: (rows) => read((connection) => load(connection, rows)),
  recordSteps: (steps) => unauditedWrite((tx) => record(tx, steps)),
  sendSignal: (signal) => writeAndNotify((tx) => send(tx, signal)),
  listSteps: (runId) => read((connection) => list(connection, runId)),
})

const STEP_COLUMNS = `s.task_id AS row, s.name, s.occurrence, s.position, s.kind, s.state, s.failures, s.output, s.output_key, s.output_bytes, s.error,
  s.details, s.started_at AS "startedAt", s.finished_at AS "finishedAt"`

interface StepRow extends Omit<Step, "output" | "details"> {
  row: number
  output: string | null
  output_key: string | null
  output_bytes: number | null
  details: string
}

const stepOf = ({ output, output_key, output_bytes, details, ...columns }: StepRow): Step => {
  const { name, occurrence, position, kind, state, failures, error, startedAt, finishedAt } = columns
  return {
    name,
    occurrence,
    position,
    kind,
    state,
    failures,
    output: outputOf(output, output_key, output_bytes),
    error,
    details: JSON.parse(details) as Json,
    startedAt,
    finishedAt,
  }
}

const STEPS = statement(
  "function_steps",
  `SELECT ${STEP_COLUMNS} FROM unnest(:rows::bigint[]) AS w (id) JOIN steps s ON s.task_id = w.id
   ORDER BY s.task_id, s.position, s.started_at, s.name, s.occurrence`,
)

const SIGNALS = statement(
  "function_signals",
  `SELECT s.task_id AS row, s.id, s.name, s.payload, s.sent_at AS "sentAt" FROM unnest(:rows::bigint[]) AS w (id)
   JOIN signals s ON s.task_id = w.id ORDER BY s.id`,
)

const REQUESTS = statement(
  "function_requests",
  `SELECT t.id AS row, COALESCE(t.resume_requests, 0) AS requests FROM unnest(:rows::bigint[]) AS w (id) JOIN tasks t ON t.id = w.id`,
)

interface SignalRow {
  row: number
  id: number
  name: string
  payload: string
  sentAt: string
}

/** Reads the number of requests first: one that arrives in between makes the function due once more. */
const load = async (connection: SqlRunner, rows: readonly number[]): Promise<Map<number, FunctionState>> => {
  const requests = connection.run<{ row: number; requests: number }>(REQUESTS, { rows })
  const steps = connection.run<StepRow>(STEPS, { rows })
  const signals = connection.run<SignalRow>(SIGNALS, { rows })
  const states = new Map<number, FunctionState>(
    (await requests).map(({ row, requests: resumeRequests }) => [row, { steps: [], signals: [], resumeRequests }]),
  )
  for (const step of await steps) states.get(step.row)?.steps.push(stepOf(step))
  for (const { row, payload, ...signal } of await signals)
    states.get(row)?.signals.push({ ...signal, payload: JSON.parse(payload) as Json })
  return states
}

/** A result that a transaction of the user has recorded stays, even if the reply to its commit was lost. */
const RECORD = statement(
  "steps_record",
  `INSERT INTO steps AS s (task_id, name, occurrence, position, kind, state, failures, output, output_key, output_bytes, error, details, started_at,
     finished_at)
   SELECT t.id, c.name, c.occurrence, c.position, c.kind, c.state, c.failures, c.output, c.output_key, c.output_bytes, c.error, c.details, c.started_at,
     c.finished_at
   FROM unnest(:rows::bigint[], :attempts::uuid[], :names::text[], :occurrences::int[], :positions::int[], :kinds::text[], :states::text[], :failures::int[],
     :outputs::text[], :outputKeys::text[], :outputBytes::bigint[], :errors::text[], :details::text[], :startedAts::timestamptz[],
     :finishedAts::timestamptz[])
     AS c (id, attempt_id, name, occurrence, position, kind, state, failures, output, output_key, output_bytes, error, details, started_at, finished_at)
   JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL
   ON CONFLICT (task_id, name, occurrence) DO UPDATE SET kind = excluded.kind, state = excluded.state, failures = excluded.failures,
     output = excluded.output, output_key = excluded.output_key, output_bytes = excluded.output_bytes, error = excluded.error,
     details = excluded.details, finished_at = excluded.finished_at WHERE s.state <> 'success'
   RETURNING task_id AS row`,
)

const record = async (tx: Tx, steps: readonly NewStep[]): Promise<AttemptId[]> => {
  if (steps.length === 0) return []
  const outputs = steps.map(({ output }) => outputColumns(output ?? undefined))
  const recording = tx.run<{ row: number }>(RECORD, {
    rows: steps.map(({ row }) => row),
    attempts: steps.map(({ attemptId }) => attemptId),
    names: steps.map(({ name }) => name),
    occurrences: steps.map(({ occurrence }) => occurrence),
    positions: steps.map(({ position }) => position),
    kinds: steps.map(({ kind }) => kind),
    states: steps.map(({ state }) => state),
    failures: steps.map(({ failures }) => failures),
    outputs: outputs.map(([inline]) => inline),
    outputKeys: outputs.map(([, key]) => key),
    outputBytes: outputs.map(([, , bytes]) => bytes),
    errors: steps.map(({ error }) => error),
    details: steps.map(({ details }) => JSON.stringify(details)),
    startedAts: steps.map(({ startedAt }) => startedAt),
    finishedAts: steps.map(({ finishedAt }) => finishedAt),
  })
  void tx.commit()
  const held = new Set((await recording).map(({ row }) => row))
  return steps.flatMap(({ row, attemptId }) => (held.has(row) ? [] : [attemptId]))
}

const NOTE_CALLS = statement(
  "steps_note_calls",
  `UPDATE steps s SET details = (s.details::jsonb || '{"made": true}')::text
   FROM unnest(:rows::bigint[], :names::text[], :occurrences::int[]) AS c (id, name, occurrence)
   WHERE s.task_id = c.id AND s.name = c.name AND s.occurrence = c.occurrence AND s.state = 'waiting'`,
)

/** Notes in steps that their children are created. A child that is removed later is not created again. */
export const noteCalls = async (tx: SqlRunner, calls: readonly (CallStep & { row: number })[]): Promise<void> => {
  if (calls.length === 0) return
  await tx.run(NOTE_CALLS, {
    rows: calls.map(({ row }) => row),
    names: calls.map(({ name }) => name),
    occurrences: calls.map(({ occurrence }) => occurrence),
  })
}

const FUNCTION = statement(
  "function_row",
  `SELECT t.id AS row, r.status FROM runs r JOIN tasks t ON t.run_seq = r.seq AND t.node = 0 AND t.path = '' WHERE r.id = :runId::uuid`,
)

const SIGNAL = statement(
  "signal_send",
  `INSERT INTO signals (task_id, name, key, payload, sent_at) VALUES (:row, :name, :key, :payload, ${NOW}) ON CONFLICT DO NOTHING
   RETURNING id`,
)

const send = async (tx: Tx, { runId, name, payload, key }: NewSignal): Promise<SignalOutcome> => {
  const [found] = await tx.run<{ row: number; status: RunStatus }>(FUNCTION, { runId })
  if (found === undefined) return "unknown"
  if (isRunClosed(found.status)) return "ended"
  const { row } = found
  const values = { row, name, key: key === null ? null : indexKey(key), payload: JSON.stringify(payload) }
  if ((await tx.run(SIGNAL, values)).length === 0) return "repeated"
  await requestResume(tx, [row])
  return "sent"
}

const list = async (connection: SqlRunner, runId: RunId): Promise<Step[]> => {
  const [found] = await connection.run<{ row: number }>(FUNCTION, { runId })
  return found === undefined ? [] : (await connection.run<StepRow>(STEPS, { rows: [found.row] })).map(stepOf)
}
