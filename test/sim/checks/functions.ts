// Checks durable functions: what their steps did, what was recorded, what the functions saw of it, and what users were told must fit
// together. A step is named by a key, `OCCURRENCE/NAME`.

import { isDeepStrictEqual } from "node:util"
import { isReservedSignal } from "../../../src/core/model/function-signals.ts"
import type { Json } from "../../../src/core/values/json.ts"
import type { RetryReset } from "../../../src/core/rules/runs/retry-plan.ts"
import type { NewSignal, NewStep, SignalOutcome } from "../../../src/store/contract/functions.ts"
import type { RunRecord, StepRecord, TaskRecord } from "../database/table-reader.ts"
import { jobResult, type Op, type StepOp, stepName } from "../scenario/functions.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { describeTask, type LaunchedAttempt } from "./attempt-log.ts"

export type StepOutcome = { value: Json } | { failed: true }

interface SentSignal {
  name: string
  key: string | null
  payload: Json
  /** The step that has received it; null: none has. */
  receiver: string | null
  /** Number of loads of functions before it. */
  loads: number
}

/** A run of a function. Times are in milliseconds since the start of the simulation. */
interface FunctionRun {
  records: Map<string, StepRecord>
  seen: Map<string, StepOutcome>
  /** The results of all tries of steps. */
  tokens: Set<string>
  signals: SentSignal[]
  /** How often a transaction was recorded, for steps that were forgotten since too. */
  transactions: Map<string, number>
  /** When a waiting step began that is recorded. */
  begun: Map<string, number>
  /** When the last recorded failure of a step came. */
  failedAt: Map<string, number>
}

/** One activation of a function. */
interface Activation {
  begun: Map<string, number>
  failedAt: Map<string, number>
  /** Number of loads of functions up to its own; null before it. */
  loads: number | null
}

/** Returns whether both are the same, apart from the note that the child of a step was created, which comes with the child. */
const isSameRecord = (a: StepRecord | undefined, b: StepRecord): boolean => {
  const withoutNote = (record: StepRecord) => {
    const { details, ...rest } = JSON.parse(JSON.stringify(record)) as StepRecord
    return { ...rest, details: { ...(JSON.parse(details) as object), made: true } }
  }
  return a !== undefined && isDeepStrictEqual(withoutNote(a), withoutNote(b))
}

const keyOf = ({ name, occurrence }: { name: string; occurrence: number }): string => `${occurrence}/${name}`

export class FunctionLog {
  readonly #simulation: Simulation
  readonly #runs = new Map<string, FunctionRun>()
  readonly #activations = new Map<string, Activation>()
  #loads = 0
  #tries = 0

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  #run(runId: string): FunctionRun {
    const run = this.#runs.get(runId) ?? {
      records: new Map(),
      seen: new Map(),
      tokens: new Set(),
      signals: [],
      transactions: new Map(),
      begun: new Map(),
      failedAt: new Map(),
    }
    this.#runs.set(runId, run)
    return run
  }

  /** By how much clocks may hasten a wait: their differences, and the steps forward. */
  get #hasteMs(): number {
    const { engines, clockSteps } = this.#simulation.scenario
    const skews = engines.map(({ skewMs }) => skewMs)
    const forward = clockSteps.reduce((sum, { ms }) => sum + Math.max(0, ms), 0)
    return Math.max(...skews) - Math.min(...skews) + forward
  }

  #fail(invariant: string, attempt: LaunchedAttempt, what: string): never {
    throw new Violation(invariant, `${describeTask(attempt)} #${attempt.number}: ${what}`)
  }

  // -- activations ---------------------------------------------------------------------------------------------------------------------

  addActivation({ id }: LaunchedAttempt): void {
    this.#activations.set(id, { begun: new Map(), failedAt: new Map(), loads: null })
  }

  /** The function calls a step. */
  begin({ id }: LaunchedAttempt, key: string): void {
    this.#activations.get(id)!.begun.set(key, this.#simulation.clock.elapsed)
  }

  /** The code of a step begins. Returns the result of this try. */
  beginTry(attempt: LaunchedAttempt, key: string, { number, isCancelled }: { number: number; isCancelled: boolean }): string {
    const run = this.#run(attempt.runId)
    const token = `${key} try ${(this.#tries += 1)}`
    run.tokens.add(token)
    if (this.#simulation.isAbandoned(attempt)) return token
    const { tables, clock, trace } = this.#simulation
    trace.add(clock.elapsed, `${attempt.process.name} ${describeTask(attempt)} begins ${key} #${number}`)
    const isClosed = tables.run(attempt.runId)!.finished_at !== null
    if (isClosed) this.#fail("a finished function runs no step", attempt, key)
    if (isCancelled) this.#fail("a cancelled function begins no step but in finally", attempt, key)
    const record = run.records.get(key)
    // A transaction whose reply was lost is repeated, and rolled back.
    const isEnded = record !== undefined && record.state !== "waiting" && record.kind !== "tx"
    if (run.seen.has(key) || isEnded) this.#fail("a recorded step does not run again", attempt, key)
    const failures = record?.failures ?? 0
    if (number !== failures + 1)
      this.#fail("tries of a step are counted", attempt, `${key} is try ${number} after ${failures} failures`)
    this.#checkRetryDelay(attempt, run, key)
    return token
  }

  #checkRetryDelay(attempt: LaunchedAttempt, run: FunctionRun, key: string): void {
    const failedAt = run.failedAt.get(key)
    const op = this.#opOf(attempt, key)
    if (failedAt === undefined || op === null || !("delayMs" in op)) return
    const earlyMs = failedAt + op.delayMs - this.#simulation.clock.elapsed
    if (earlyMs > this.#hasteMs) this.#fail("steps wait for their retry", attempt, `${key} is ${earlyMs} ms too early`)
  }

  #opOf({ workflow }: LaunchedAttempt, key: string): StepOp | null {
    const find = (ops: readonly Op[], isParallel: boolean): StepOp | null => {
      for (const op of ops) {
        const inner = "ops" in op ? find(op.ops, isParallel || op.kind === "all") : null
        if (inner !== null) return inner
        if (!("ops" in op) && `0/${stepName(op, isParallel)}` === key) return op
      }
      return null
    }
    return find(workflow.program!, false)
  }

  failTry({ id }: LaunchedAttempt, key: string): void {
    this.#activations.get(id)!.failedAt.set(key, this.#simulation.clock.elapsed)
  }

  /** The function gets the outcome of a step. */
  see(attempt: LaunchedAttempt, op: StepOp, key: string, outcome: StepOutcome): void {
    if (this.#simulation.isAbandoned(attempt)) return
    const run = this.#run(attempt.runId)
    const before = run.seen.get(key)
    if (before !== undefined) {
      if (isDeepStrictEqual(before, outcome)) return
      this.#fail("a step keeps its result", attempt, `${key} was ${JSON.stringify(before)}, and is ${JSON.stringify(outcome)}`)
    }
    // A value is recorded by the next commit.
    if (op.kind === "now") return
    run.seen.set(key, outcome)
    const record = run.records.get(key)
    const expected = "failed" in outcome ? "failed" : "success"
    if (record?.state !== expected)
      this.#fail("a step is recorded first", attempt, `${key} is ${expected}, and recorded as ${record?.state}`)
    if ("failed" in outcome) return this.#checkFailure(attempt, op, key, record)
    this.#checkValue(attempt, run, { op, key, value: outcome.value })
  }

  #checkFailure(attempt: LaunchedAttempt, op: StepOp, key: string, { failures }: StepRecord): void {
    // What was called may have been cancelled, or lost too often.
    if (op.kind === "call" || op.kind === "child") return
    if (!("attempts" in op) || op.failures < op.attempts || failures !== op.attempts)
      this.#fail("a step fails when its tries do", attempt, `${key} after ${failures} failures`)
  }

  #checkValue(attempt: LaunchedAttempt, run: FunctionRun, { op, key, value }: { op: StepOp; key: string; value: Json }): void {
    const waitedMs = this.#simulation.clock.elapsed - (run.begun.get(key) ?? this.#activations.get(attempt.id)!.begun.get(key)!)
    switch (op.kind) {
      case "run":
      case "tx": {
        const token = typeof value === "object" && value !== null && "token" in value ? value["token"] : value
        if (!run.tokens.has(token as string))
          this.#fail("a result is that of a try", attempt, `${key} is ${JSON.stringify(token)}`)
        if (op.kind === "tx") this.#checkLedger(attempt, run, key)
        return
      }
      case "sleep":
        if (waitedMs + this.#hasteMs < op.ms)
          this.#fail("a sleep is not early", attempt, `${key} slept ${waitedMs} of ${op.ms} ms`)
        return
      case "wait":
        if (value !== null) return this.#checkSignal(attempt, run, key, value)
        if (op.timeoutMs === null || waitedMs + this.#hasteMs < op.timeoutMs)
          this.#fail("a wait does not end early", attempt, `${key} waited ${waitedMs} of ${op.timeoutMs} ms`)
        return this.#checkMissedSignal(attempt, run, key)
      case "call":
        if (value !== jobResult(attempt.runId, key))
          this.#fail("a call returns the result of its job", attempt, `${key} is ${JSON.stringify(value)}`)
        return
      case "child":
        return this.#checkChild(attempt, run, key, value)
      case "now":
        return
      default:
        return op satisfies never
    }
  }

  #checkLedger({ runId }: Pick<LaunchedAttempt, "runId">, run: FunctionRun, key: string): void {
    const expected = run.transactions.get(key) ?? 0
    const found = this.#simulation.tables.countLedger(`${runId} ${key}`)
    if (found === expected) return
    throw new Violation(
      "a transaction happens once",
      `${key} of ${runId} has written ${found} times, and was recorded ${expected} times`,
    )
  }

  /** Waits for one signal receive it in the order in which it was sent. */
  #checkSignal(attempt: LaunchedAttempt, run: FunctionRun, key: string, payload: Json): void {
    const name = key.slice(key.indexOf("/") + 1)
    const open = run.signals.filter((sent) => sent.name === name && sent.receiver === null)
    const [first] = open
    if (first === undefined || first.payload !== payload) {
      const sent = run.signals.map((each) => `${each.name}: ${JSON.stringify(each.payload)} for ${each.receiver}`).join(", ")
      this.#fail("a signal is delivered once, in order", attempt, `${key} got ${JSON.stringify(payload)}; sent: ${sent}`)
    }
    first.receiver = key
  }

  /** A wait that has timed out has not overlooked a signal that was there when the function was activated. */
  #checkMissedSignal(attempt: LaunchedAttempt, run: FunctionRun, key: string): void {
    const name = key.slice(key.indexOf("/") + 1)
    const { loads } = this.#activations.get(attempt.id)!
    const missed = run.signals.find((sent) => sent.name === name && sent.receiver === null && sent.loads < loads!)
    const record = run.records.get(key)
    const isOld = record !== undefined && this.#recordedBefore.get(record) !== attempt.id
    if (missed !== undefined && !isOld)
      this.#fail("a signal is not overlooked", attempt, `${key} missed ${JSON.stringify(missed.payload)}`)
  }

  /** The attempt that has recorded a step. */
  readonly #recordedBefore = new WeakMap<StepRecord, string>()

  #checkChild(attempt: LaunchedAttempt, run: FunctionRun, key: string, value: Json): void {
    const { tables, model } = this.#simulation
    const { id } = JSON.parse(run.records.get(key)!.details) as { id: string }
    const child = tables.run(id)
    const task = child === undefined ? undefined : tables.task(child.seq, 0, "")
    if (task?.status === "success" && isDeepStrictEqual(model.output(task), value)) return
    this.#fail("a call returns the result of its run", attempt, `${key} is ${JSON.stringify(value)}, its run ${child?.status}`)
  }

  // -- commits -------------------------------------------------------------------------------------------------------------------------

  /** The functions of these rows read what they have recorded. */
  afterLoad(rows: readonly number[]): void {
    this.#loads += 1
    for (const row of rows) {
      const { attempt_id: id } = this.#simulation.tables.taskByRow(row) ?? {}
      const activation = typeof id === "string" ? this.#activations.get(id) : undefined
      if (activation !== undefined) activation.loads = this.#loads
    }
  }

  /** `steps`: those of a call; `lost`: attempts whose steps were rejected. */
  afterRecord(steps: readonly NewStep[], lost: readonly string[]): void {
    for (const row of new Set(steps.map((step) => step.row))) {
      const task = this.#simulation.tables.taskByRow(row)
      if (task === undefined || task.run_seq === 0) continue
      const run = this.#run(this.#simulation.tables.runBySeq(task.run_seq).id)
      const stored = this.#compare(run, task)
      for (const step of steps.filter((each) => each.row === row)) this.#apply(run, task, step, { stored, lost })
      for (const [key, record] of stored) {
        if (isSameRecord(run.records.get(key), record)) continue
        throw new Violation("a step is recorded as it ended", `${key} of row ${row} is ${JSON.stringify(record)}`)
      }
    }
  }

  #apply(
    run: FunctionRun,
    task: TaskRecord,
    step: NewStep,
    { stored, lost }: { stored: ReadonlyMap<string, StepRecord>; lost: readonly string[] },
  ): void {
    const key = keyOf(step)
    const record = stored.get(key)
    const isStored =
      record !== undefined &&
      record.state === step.state &&
      record.kind === step.kind &&
      isDeepStrictEqual(outputOf(record), step.output)
    const what = `${key} of row ${task.id}, ${step.state}`
    // The attempt that holds the function may have recorded the same step in the same call.
    if (lost.includes(step.attemptId) && (!isStored || task.attempt_id !== step.attemptId)) return
    if (!isStored) throw new Violation("an acknowledged step is stored", `${what} is ${JSON.stringify(record)}`)
    if (isSameRecord(run.records.get(key), record)) return
    if (task.attempt_id !== step.attemptId)
      throw new Violation("only the attempt that holds a function records steps", `${what} by ${step.attemptId}`)
    const activation = this.#activations.get(step.attemptId)
    const begunAt = activation?.begun.get(key)
    if (!run.records.has(key) && begunAt !== undefined) run.begun.set(key, begunAt)
    if (record.failures > (run.records.get(key)?.failures ?? 0)) {
      const failedAt = activation?.failedAt.get(key)
      if (failedAt !== undefined) run.failedAt.set(key, failedAt)
    }
    if (step.kind === "tx" && step.state === "success") run.transactions.set(key, (run.transactions.get(key) ?? 0) + 1)
    run.records.set(key, record)
    this.#recordedBefore.set(record, step.attemptId)
  }

  /** Returns the stored steps of a function. Those that have ended are as they were. */
  #compare(run: FunctionRun, { id }: TaskRecord): Map<string, StepRecord> {
    const stored = new Map(this.#simulation.tables.steps(id).map((record) => [keyOf(record), record]))
    for (const [key, before] of run.records) {
      const now = stored.get(key)
      const isKept = before.state === "waiting" ? now !== undefined : isDeepStrictEqual(now, before)
      if (isKept) continue
      const change = `${key} of row ${id} was ${JSON.stringify(before)}, and is ${JSON.stringify(now)}`
      throw new Violation("a recorded step keeps its result", change.slice(0, 1000))
    }
    return stored
  }

  afterTransaction(
    { row, name, occurrence, attemptId }: Pick<NewStep, "row" | "name" | "occurrence" | "attemptId">,
    held: boolean,
  ): void {
    const { tables } = this.#simulation
    const task = tables.taskByRow(row)!
    const run = this.#run(tables.runBySeq(task.run_seq).id)
    const key = keyOf({ name, occurrence })
    const stored = this.#compare(run, task)
    const record = stored.get(key)
    if (held) {
      if (record?.state !== "success") throw new Violation("an acknowledged step is stored", `transaction ${key} of row ${row}`)
      if (task.attempt_id !== attemptId)
        throw new Violation("only the attempt that holds a function records steps", `${key} of row ${row} by ${attemptId}`)
      if (run.records.get(key)?.state === "success")
        throw new Violation("a transaction happens once", `${key} of row ${row} was recorded again`)
      run.transactions.set(key, (run.transactions.get(key) ?? 0) + 1)
      run.records.set(key, record)
    }
    this.#checkLedger({ runId: tables.runBySeq(task.run_seq).id }, run, key)
  }

  afterSignal({ runId, name, payload, key }: NewSignal, outcome: SignalOutcome): void {
    if (isReservedSignal(name)) return
    const { signals } = this.#run(runId)
    const isRepeated = key !== null && signals.some((sent) => sent.name === name && sent.key === key)
    if (outcome === "sent") {
      if (isRepeated) throw new Violation("a key sends one signal", `${name} with ${key} to ${runId}`)
      signals.push({ name, key, payload, receiver: null, loads: this.#loads })
    } else if (outcome === "repeated" && !isRepeated) {
      throw new Violation("a key sends one signal", `the first ${name} with ${key} to ${runId} counted as repeated`)
    }
  }

  /** A retry forgets the steps that have failed, and those that it names. */
  afterRetry(runId: string, { rows }: RetryReset): void {
    const { tables } = this.#simulation
    const task = tables.task(tables.run(runId)!.seq, 0, "")
    const run = this.#runs.get(runId)
    if (run === undefined || task === undefined) return
    const named = new Set(rows.flatMap(({ steps = [] }) => steps.map(keyOf)))
    const stored = new Map(tables.steps(task.id).map((record) => [keyOf(record), record]))
    for (const [key, record] of run.records) {
      const isForgotten = named.has(key) || record.state === "failed"
      if (isForgotten === !stored.has(key)) {
        if (isForgotten) this.#forget(run, key)
        continue
      }
      throw new Violation(
        "a retry forgets the right steps",
        `${key} of ${runId}, ${record.state}, is ${isForgotten ? "kept" : "gone"}`,
      )
    }
  }

  #forget(run: FunctionRun, key: string): void {
    for (const map of [run.records, run.seen, run.begun, run.failedAt]) map.delete(key)
    for (const sent of run.signals) if (sent.receiver === key) sent.receiver = null
  }

  // -- the end -------------------------------------------------------------------------------------------------------------------------

  /** The result of a function is composed of the recorded results of its steps; without one, a step has failed. */
  checkEnd({ id }: RunRecord, task: TaskRecord): void {
    const { program } = this.#simulation.workflowOf(this.#simulation.tables.run(id)!.workflow)
    if (program === undefined || (task.status !== "success" && task.status !== "failed")) return
    const run = this.#run(id)
    this.#compare(run, task)
    for (const key of run.transactions.keys()) this.#checkLedger({ runId: id }, run, key)
    const composed = new Composition(run.records, (record) => this.#valueOf(record)).sequence(program, false)
    if (task.status === "failed") {
      if (composed === "failed" || task.error?.startsWith("timed out") === true) return
      throw new Violation(
        "a function fails when a step does",
        `${this.#simulation.labelOf(id)} (${task.error}): ${JSON.stringify(composed)}`,
      )
    }
    const output = this.#simulation.model.output(task)
    if (typeof composed !== "string" && isDeepStrictEqual(composed.value, output)) return
    const values = `${JSON.stringify(output)}, and not ${JSON.stringify(composed)}`
    throw new Violation(
      "a result has the results of the steps",
      `that of ${this.#simulation.labelOf(id)} is ${values}`.slice(0, 2000),
    )
  }

  #valueOf({ output, output_key }: StepRecord): Json {
    return JSON.parse(output_key === null ? (output ?? "null") : this.#simulation.objects.text(output_key)) as Json
  }
}

const outputOf = ({ output, output_key: key, output_bytes: bytes }: StepRecord): Json => {
  if (key !== null) return { key, bytes: bytes ?? 0 }
  return output === null ? null : { inline: JSON.parse(output) as Json }
}

type Composed = { value: Json } | "failed" | "missing"

/** Computes the result of a program from the recorded results of its steps. */
class Composition {
  readonly #records: ReadonlyMap<string, StepRecord>
  readonly #valueOf: (record: StepRecord) => Json
  readonly #occurrences = new Map<string, number>()

  constructor(records: ReadonlyMap<string, StepRecord>, valueOf: (record: StepRecord) => Json) {
    this.#records = records
    this.#valueOf = valueOf
  }

  sequence(ops: readonly Op[], isParallel: boolean): Composed {
    const values: Json[] = []
    for (const op of ops) {
      const composed = this.#compose(op, isParallel)
      if (typeof composed === "string") return composed
      values.push(composed.value)
    }
    return { value: values }
  }

  #compose(op: Op, isParallel: boolean): Composed {
    switch (op.kind) {
      case "all": {
        const parts = op.ops.map((each) => this.#compose(each, true))
        const bad = parts.find((part) => part === "failed") ?? parts.find((part) => part === "missing")
        return bad ?? { value: parts.map((part) => (part as { value: Json }).value) }
      }
      case "guard":
        return this.sequence(op.ops, isParallel)
      case "catch": {
        const composed = this.sequence(op.ops, isParallel)
        return composed === "failed" ? { value: "caught" } : composed
      }
      default:
        return this.#step(op, isParallel)
    }
  }

  #step(op: StepOp & Pick<Op, "id">, isParallel: boolean): Composed {
    const name = stepName(op, isParallel)
    const occurrence = this.#occurrences.get(name) ?? 0
    this.#occurrences.set(name, occurrence + 1)
    const record = this.#records.get(keyOf({ name, occurrence }))
    if (record === undefined || record.state === "waiting") return "missing"
    return record.state === "failed" ? "failed" : { value: this.#valueOf(record) }
  }
}
