// Steps and signals of durable functions.

import type { CallStep } from "../../../core/model/function-signals.ts"
import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import { indexKey } from "../../../core/values/index-key.ts"
import type { Json } from "../../../core/values/json.ts"
import { isRunClosed, type RunStatus } from "../../../core/model/status.ts"
import type { FunctionState, FunctionStore, NewSignal, NewStep, Signal, SignalOutcome, Step } from "../../contract/functions.ts"
import { outputColumns, outputOf } from "../../shared/codec.ts"
import { requestResume } from "../advance/request-resume.ts"
import type { Access, StoreContext, Tx } from "../tx.ts"

export const functionStore = ({ read, write }: Access): FunctionStore => ({
  loadFunctions: (rows) => read((context) => new Map(rows.map((row) => [row, load(context, row)]))),
  recordSteps: (steps) => write((tx) => recordSteps(tx, steps)),
  sendSignal: (signal) => write((tx) => send(tx, signal)),
  listSteps: (runId) => read((context) => list(context, runId)),
})

const STEPS = `
SELECT name, occurrence, position, kind, state, failures, output, output_key, output_bytes, error, details, started_at, finished_at
FROM steps WHERE task_id = ? ORDER BY position, started_at, name, occurrence`

const SIGNALS = "SELECT id, name, payload, sent_at FROM signals WHERE task_id = ? ORDER BY id"

const REQUESTS = "SELECT coalesce(resume_requests, 0) FROM tasks WHERE id = ?"

type StepColumns = [
  name: string,
  occurrence: number,
  position: number,
  kind: Step["kind"],
  state: Step["state"],
  failures: number,
  output: string | null,
  outputKey: string | null,
  outputBytes: number | null,
  error: string | null,
  details: string,
  startedAt: string,
  finishedAt: string | null,
]

const stepsOf = ({ db }: StoreContext, row: number): Step[] =>
  db
    .all<StepColumns>(STEPS, row)
    .map(([name, occurrence, position, kind, state, failures, output, key, bytes, error, details, start, end]) => ({
      name,
      occurrence,
      position,
      kind,
      state,
      failures,
      output: outputOf(output, key, bytes),
      error,
      details: JSON.parse(details) as Json,
      startedAt: start,
      finishedAt: end,
    }))

const load = (context: StoreContext, row: number): FunctionState => ({
  steps: stepsOf(context, row),
  signals: context.db
    .all<[number, string, string, string]>(SIGNALS, row)
    .map(([id, name, payload, sentAt]): Signal => ({ id, name, payload: JSON.parse(payload) as Json, sentAt })),
  resumeRequests: context.db.get<[number]>(REQUESTS, row)?.[0] ?? 0,
})

const RECORD = `
INSERT INTO steps (task_id, name, occurrence, position, kind, state, failures, output, output_key, output_bytes, error, details, started_at, finished_at)
SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM tasks
WHERE id = ? AND attempt_id = ? AND status IN ('dispatched', 'running') AND waiting_on IS NULL
ON CONFLICT (task_id, name, occurrence) DO UPDATE SET kind = excluded.kind, state = excluded.state, failures = excluded.failures,
  output = excluded.output, output_key = excluded.output_key, output_bytes = excluded.output_bytes, error = excluded.error,
  details = excluded.details, finished_at = excluded.finished_at WHERE steps.state <> 'success'`

export const recordSteps = (tx: Tx, steps: readonly NewStep[]): AttemptId[] =>
  steps.flatMap((step) => {
    const { row, attemptId, name, occurrence, position, kind, state, failures, error, details, startedAt, finishedAt } = step
    const output = outputColumns(step.output ?? undefined)
    const begun = [name, occurrence, position, kind, state, failures]
    const ended = [error, JSON.stringify(details), startedAt, finishedAt]
    return tx.db.run(RECORD, ...begun, ...output, ...ended, row, attemptId) === 0 ? [attemptId] : []
  })

const NOTE_CALL = `
UPDATE steps SET details = json_set(details, '$.made', json('true')) WHERE task_id = ? AND name = ? AND occurrence = ? AND state = 'waiting'`

/** Notes in a step that its child is created. A child that is removed later is not created again. */
export const noteCall = (tx: Tx, row: number, { name, occurrence }: CallStep): void =>
  void tx.db.run(NOTE_CALL, row, name, occurrence)

const FUNCTION = `
SELECT t.id, r.status FROM runs r CROSS JOIN tasks t ON t.run_seq = r.seq AND t.node = 0 AND t.path = '' WHERE r.id = ?`

const SIGNAL = "INSERT INTO signals (task_id, name, key, payload, sent_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"

const send = (tx: Tx, { runId, name, payload, key }: NewSignal): SignalOutcome => {
  const found = tx.db.get<[number, RunStatus]>(FUNCTION, runId)
  if (found === undefined) return "unknown"
  const [row, status] = found
  if (isRunClosed(status)) return "ended"
  const hashed = key === null ? null : indexKey(key)
  if (tx.db.run(SIGNAL, row, name, hashed, JSON.stringify(payload), tx.at) === 0) return "repeated"
  requestResume(tx, row)
  tx.wake.noteWorkLeft()
  return "sent"
}

const list = (context: StoreContext, runId: RunId): Step[] => {
  const found = context.db.get<[number, RunStatus]>(FUNCTION, runId)
  return found === undefined ? [] : stepsOf(context, found[0])
}
