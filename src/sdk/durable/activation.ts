// One activation of a durable function: runs it from its beginning with the recorded results of its steps, until it ends or has nothing
// left to do but wait. A step that has to wait returns a promise that never settles; the activation ends instead.

import type { Json } from "../../core/model/json.ts"
import { messageOf } from "../../core/model/error-message.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { retryDelayMs } from "../../core/rules/decide.ts"
import type { Output } from "../../core/model/change.ts"
import type { FunctionLog } from "../../core/model/function.ts"
import { markOf } from "../../executors/errors.ts"
import type { FunctionState, NewStep, Step, StepKind } from "../../store/contract/functions.ts"
import type { SqlTransaction } from "../../store/contract/transactions.ts"
import { retryPolicyOf, type SignalDefinition, type TaskDefinition, type WorkflowDefinition } from "../definitions.ts"
import { type Duration, optionalMs, toMs } from "../duration.ts"
import { CancelledError, NonDeterminismError, TaskFailedError } from "../errors.ts"
import { validate } from "../schema.ts"
import { LostFunction } from "./journal.ts"
import type { StepContext, StepOptions, StepTools } from "./step-tools.ts"

/** A job or run that a function has started. */
export type Child = { kind: "task" | "workflow"; id: string }

export type ChildEnd = { output: Output | null } | { error: string; cancelled: boolean }

export interface ActivationPorts {
  clock: Clock
  random: Random
  log: FunctionLog
  signal: AbortSignal
  /** Resolves when the steps are committed. */
  record(steps: Omit<NewStep, "row" | "attemptId">[]): Promise<void>
  /** Runs code in a transaction that also records its result. */
  transact(step: Step, code: (tx: SqlTransaction) => Promise<Json>): Promise<Json>
  readOutput(output: Output): Json | Promise<Json>
  writeOutput(step: { name: string; occurrence: number }, value: Json): Promise<Output>
  newChild(definition: ChildDefinition): Child
  /** Starts the child, unless it exists. */
  startChild(child: Child, definition: ChildDefinition, input: unknown): Promise<void>
  /** Returns the end of a child; null: it has not ended. */
  childEnd(child: Child): Promise<ChildEnd | null>
}

export type ChildDefinition = TaskDefinition<never, unknown> | WorkflowDefinition<never, unknown>

export type ActivationEnd =
  | { kind: "returned"; value: unknown }
  | { kind: "threw"; error: unknown }
  | { kind: "suspended"; message: string; delayMs: number | null }

interface Blocked {
  message: string
  /** When the step can go on without an event; null: by an event only. */
  until: number | null
}

export class Activation implements StepTools {
  readonly id: string
  readonly log: FunctionLog
  readonly #ports: ActivationPorts
  readonly #recorded: Map<string, Step>
  readonly #signals: FunctionState["signals"]
  readonly #usedSignals = new Set<number>()
  /** Number of steps of each name so far. */
  readonly #occurrences = new Map<string, number>()
  /** Position of the next new step. */
  #position: number
  /** Recorded steps that the function has not reached. */
  #unreached: number
  /** Records that the next commit takes along. */
  #pending: Omit<NewStep, "row" | "attemptId">[] = []
  /** Steps that run code or wait for a commit. */
  #active = 0
  readonly #blocked = new Set<Blocked>()
  #end: ((end: ActivationEnd) => void) | null = null

  constructor(id: string, { steps, signals }: FunctionState, ports: ActivationPorts) {
    this.id = id
    this.log = ports.log
    this.#ports = ports
    this.#recorded = new Map(steps.map((step) => [keyOf(step), step]))
    this.#signals = signals
    this.#position = steps.reduce((last, { position }) => Math.max(last, position + 1), 0)
    this.#unreached = steps.length
    for (const { kind, details } of steps)
      if (kind === "wait" && isSignalDetails(details)) this.#usedSignals.add(details.signal)
  }

  /** Calls the function. Resolves when it has ended, or has to wait. */
  start(call: (step: StepTools) => unknown): Promise<ActivationEnd> {
    return new Promise((resolve) => {
      this.#end = (end) => {
        this.#end = null
        resolve(end)
      }
      const run = async (): Promise<unknown> => await call(this)
      run().then(
        (value) => this.#end?.({ kind: "returned", value }),
        (error: unknown) => this.#end?.({ kind: "threw", error }),
      )
      this.#suspendWhenIdle()
    })
  }

  // -- steps -----------------------------------------------------------------------------------------------------------------------

  readonly run = <Result>(
    name: string,
    code: (context: StepContext) => Result | Promise<Result>,
    options?: StepOptions,
  ): Promise<Result> =>
    this.#try("run", name, options, async (step, context) => {
      const value = toJson(await code(context), `step ${name}`)
      return async () => await this.#succeed(step, value as Result & Json)
    })

  readonly tx = <Result>(
    name: string,
    code: (tx: SqlTransaction, context: StepContext) => Result | Promise<Result>,
    options?: StepOptions,
  ): Promise<Result> =>
    this.#try("tx", name, options, async (step, context) => {
      await this.flush()
      const value = await this.#ports.transact(step, async (tx) => toJson(await code(tx, context), `step ${name}`))
      return async () => ({ value: value as Result })
    })

  /** Runs the code of a step, which returns how its result is recorded. Records a failure, and retries later. */
  async #try<Result>(
    kind: "run" | "tx",
    name: string,
    { retry }: StepOptions = {},
    execute: (step: Step, context: StepContext) => Promise<() => Promise<{ value: Result }>>,
  ): Promise<Result> {
    const policy = retryPolicyOf(retry, `step ${name}`)
    const step = this.#next(kind, name)
    const ended = await this.#ended(step)
    if (ended !== null) return ended.value as Result
    const until = untilOf(step.details)
    if (until !== null && until > this.#ports.clock.now()) return await this.#block({ message: `retries ${name}`, until })
    if (this.#ports.signal.aborted) throw new CancelledError("the function was cancelled")
    return await this.#work(async () => {
      let record: () => Promise<{ value: Result }>
      try {
        record = await execute(step, { attempt: step.failures + 1, signal: this.#ports.signal, log: this.log })
      } catch (error) {
        if (this.#ports.signal.aborted || error instanceof LostFunction) throw error
        const { terminal, retryAfterMs } = markOf(error)
        const failures = step.failures + 1
        if (terminal === true || failures >= policy.maxAttempts) return await this.#fail(step, error)
        return await this.#retry(step, error, retryAfterMs ?? retryDelayMs(policy, failures, this.#ports.random.next()))
      }
      return await record()
    })
  }

  readonly sleep = async (name: string, duration: Duration): Promise<void> => {
    const step = this.#next("sleep", name)
    if ((await this.#ended(step)) !== null) return
    const until = untilOf(step.details) ?? this.#ports.clock.now() + toMs(duration, `step ${name}: duration`)
    await this.#work(async () => {
      if (until <= this.#ports.clock.now()) return await this.#succeed(step, null)
      if (!this.#isRecorded(step)) await this.#record({ ...step, details: { until } })
      return { blocked: { message: `sleeps (${name})`, until } }
    })
  }

  readonly waitFor = async <Payload>(
    { name, schema }: SignalDefinition<Payload>,
    { timeout }: { timeout?: Duration } = {},
  ): Promise<Payload | null> => {
    const step = this.#next("wait", name)
    const ended = await this.#ended(step)
    const check = async (payload: Json): Promise<Payload | null> =>
      payload === null ? null : ((await validate(schema, payload, `the signal ${name}`)) as Payload)
    if (ended !== null) return await check(ended.value)
    const found = this.#signals.find((signal) => signal.name === name && !this.#usedSignals.has(signal.id))
    const timeoutMs = optionalMs(timeout, `the wait for ${name}: timeout`)
    const until = untilOf(step.details) ?? (timeoutMs === null ? null : this.#ports.clock.now() + timeoutMs)
    if (found !== undefined) this.#usedSignals.add(found.id)
    const payload = await this.#work<Json>(async () => {
      if (found !== undefined) return await this.#succeed({ ...step, details: { signal: found.id } }, found.payload)
      if (until !== null && until <= this.#ports.clock.now()) return await this.#succeed(step, null)
      if (!this.#isRecorded(step)) await this.#record({ ...step, details: until === null ? {} : { until } })
      return { blocked: { message: `waits for ${name}`, until } }
    })
    return await check(payload)
  }

  readonly call = async <Input, Out>(
    definition: TaskDefinition<Input, Out> | WorkflowDefinition<Input, Out>,
    input: Input,
    { name = definition.name }: { name?: string } = {},
  ): Promise<Out> => {
    const target = definition as unknown as ChildDefinition
    const step = this.#next("call", name)
    const ended = await this.#ended(step)
    if (ended !== null) return ended.value as Out
    const recorded = isChildDetails(step.details) ? step.details : null
    const child = recorded ?? this.#ports.newChild(target)
    return await this.#work(async () => {
      const end = recorded === null ? null : await this.#ports.childEnd(child)
      if (end === null) {
        // The id is recorded first, so that a function that is interrupted here starts no second child.
        if (recorded === null) {
          await validate(definition.schema, input, `the input of ${definition.name}`)
          await this.#record({ ...step, details: { ...child } })
        }
        await this.#ports.startChild(child, target, input)
        return { blocked: { message: `waits for ${name}`, until: null } }
      }
      if ("error" in end) return await this.#fail(step, new TaskFailedError(definition.name, child.id, end.error))
      return await this.#succeed(step, (end.output === null ? null : await this.#ports.readOutput(end.output)) as Out & Json)
    })
  }

  readonly now = (): Date => new Date(this.#value("now", () => this.#ports.clock.now()) as number)

  readonly random = (): number => this.#value("random", () => this.#ports.random.next()) as number

  readonly patch = (name: string): boolean => {
    const step = this.#next("patch", name)
    if (step.state === "success") return true
    if (this.#unreached > 0) return false
    this.#pending.push(this.#done(step, { inline: true }))
    return true
  }

  /** Returns a value that is recorded with the next commit: nothing that depends on it is committed before. */
  #value(name: string, create: () => number): Json {
    const step = this.#next("value", name)
    if (step.output !== null && "inline" in step.output) return step.output.inline
    const value = create()
    this.#pending.push(this.#done(step, { inline: value }))
    return value
  }

  // -- records ---------------------------------------------------------------------------------------------------------------------

  /** Returns the record of the next step of this name; a new one when there is none. */
  #next(kind: StepKind, name: string): Step {
    const occurrence = this.#occurrences.get(name) ?? 0
    this.#occurrences.set(name, occurrence + 1)
    const recorded = this.#recorded.get(keyOf({ name, occurrence }))
    if (recorded === undefined) {
      const startedAt = iso(this.#ports.clock.now())
      return {
        name,
        occurrence,
        position: this.#position++,
        kind,
        state: "waiting",
        failures: 0,
        output: null,
        error: null,
        details: null,
        startedAt,
        finishedAt: null,
      }
    }
    if (recorded.kind !== kind) throw nonDeterminism(recorded, kind)
    this.#unreached--
    return recorded
  }

  #isRecorded(step: Step): boolean {
    return this.#recorded.get(keyOf(step)) === step
  }

  /** Returns the result of a step that has ended, or throws its error; null: it has not ended. */
  async #ended({ name, state, output, error }: Step): Promise<{ value: Json } | null> {
    if (state === "failed") throw new TaskFailedError(`step ${name} of`, this.id, error ?? "no reason is known")
    if (state !== "success") return null
    if (output === null) return { value: null }
    return { value: await this.#work(async () => ({ value: await this.#ports.readOutput(output) })) }
  }

  #done(step: Step, output: Output): Step {
    return { ...step, state: "success", output, finishedAt: iso(this.#ports.clock.now()) }
  }

  async #succeed<Value extends Json>(step: Step, value: Value): Promise<{ value: Value }> {
    await this.#record(this.#done(step, await this.#ports.writeOutput(step, value)))
    return { value }
  }

  async #fail(step: Step, error: unknown): Promise<never> {
    const finishedAt = iso(this.#ports.clock.now())
    await this.#record({ ...step, state: "failed", failures: step.failures + 1, error: messageOf(error), finishedAt })
    throw error
  }

  async #retry(step: Step, error: unknown, delayMs: number): Promise<{ blocked: Blocked }> {
    const until = this.#ports.clock.now() + delayMs
    await this.#record({ ...step, failures: step.failures + 1, error: messageOf(error), details: { until } })
    return { blocked: { message: `retries ${step.name}`, until } }
  }

  async #record(step: Step): Promise<void> {
    const steps = [...this.#pending, step]
    this.#pending = []
    await this.#ports.record(steps)
  }

  /** Records that no other step has taken along, at the end of the function. */
  async flush(): Promise<void> {
    const steps = this.#pending
    this.#pending = []
    if (steps.length > 0) await this.#ports.record(steps)
  }

  // -- suspension ------------------------------------------------------------------------------------------------------------------

  /** Runs a part of a step, and keeps the function active meanwhile. */
  async #work<Value>(part: () => Promise<{ value: Value } | { blocked: Blocked }>): Promise<Value> {
    this.#active++
    let outcome: { value: Value } | { blocked: Blocked }
    try {
      outcome = await part()
    } finally {
      this.#active--
      this.#suspendWhenIdle()
    }
    return "value" in outcome ? outcome.value : await this.#block(outcome.blocked)
  }

  #block(blocked: Blocked): Promise<never> {
    this.#blocked.add(blocked)
    this.#suspendWhenIdle()
    return new Promise<never>(() => {})
  }

  /** Suspends the function when nothing of it can go on: it gets one turn of the event loop to reach its next step. */
  #suspendWhenIdle(): void {
    setImmediate(() => {
      if (this.#end === null || this.#active > 0 || this.#blocked.size === 0) return
      const dueTimes = [...this.#blocked].flatMap(({ until }) => until ?? [])
      const delayMs = dueTimes.length === 0 ? null : Math.max(0, Math.min(...dueTimes) - this.#ports.clock.now())
      this.#end({ kind: "suspended", message: [...this.#blocked].map(({ message }) => message).join(", "), delayMs })
    })
  }
}

/** Returns a result as JSON carries it. */
export const toJson = (value: unknown, what: string): Json => {
  if (value === undefined) return null
  try {
    const text = JSON.stringify(value) as string | undefined
    if (text !== undefined) return JSON.parse(text) as Json
  } catch (error) {
    throw new TypeError(`the result of ${what} is not JSON: ${messageOf(error)}`, { cause: error })
  }
  throw new TypeError(`the result of ${what} is not JSON: it is a ${typeof value}`)
}

const keyOf = ({ name, occurrence }: Pick<Step, "name" | "occurrence">): string => `${occurrence}/${name}`

const untilOf = (details: Json): number | null =>
  typeof details === "object" && details !== null && "until" in details && typeof details["until"] === "number"
    ? details["until"]
    : null

const isSignalDetails = (details: Json): details is { signal: number } =>
  typeof details === "object" && details !== null && "signal" in details

const isChildDetails = (details: Json): details is Child =>
  typeof details === "object" && details !== null && "id" in details && "kind" in details

const KIND_TEXT = {
  run: "step.run",
  sleep: "step.sleep",
  wait: "step.waitFor",
  call: "step.call",
  tx: "step.tx",
  value: "step.now or step.random",
  patch: "step.patch",
} as const satisfies Record<StepKind, string>

const nonDeterminism = ({ name, occurrence, kind, startedAt }: Step, wanted: StepKind): NonDeterminismError => {
  const what = occurrence === 0 ? `"${name}"` : `"${name}" (number ${occurrence + 1})`
  return new NonDeterminismError(
    `the step ${what} is ${KIND_TEXT[wanted]} in this code, but was recorded as ${KIND_TEXT[kind]} at ${startedAt}: ` +
      "give the changed step another name, or choose the old or new code with step.patch",
  )
}
