// One activation of a durable function: runs it from its beginning with the recorded results of its steps, until it ends or can only
// wait. A step that has to wait returns a promise that stays pending, and the activation ends; only a cancel rejects that promise.

import type { Json } from "../../core/values/json.ts"
import { sleep } from "../../sleep.ts"
import { messageOf } from "../../core/values/error-message.ts"
import {
  type ApprovalAnswer,
  type ApprovalRequest,
  type CallStep,
  approvalRequestOf,
  approvalSignal,
  type Child,
  childOf,
} from "../../core/model/function-signals.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import { retryDelayMs } from "../../core/rules/changes/decide.ts"
import type { Output } from "../../core/model/change.ts"
import type { FunctionLog } from "../../core/model/function.ts"
import { markOf } from "../../executors/errors.ts"
import type { FunctionState, NewStep, Step, StepKind } from "../../store/contract/functions.ts"
import type { SqlTransaction } from "../../store/contract/transactions.ts"
import { retryPolicyOf, type SignalDefinition, type TaskDefinition, type WorkflowDefinition } from "../definitions.ts"
import { checkOneOf } from "../checks.ts"
import { type Duration, optionalMs, toMs } from "../duration.ts"
import { CancelledError, NonDeterminismError, NotJsonError, TaskFailedError } from "../errors.ts"
import { APPROVAL, CALL, checkNames, STEP, WAIT } from "../option-names.ts"
import { validate } from "../schema.ts"
import { toJson } from "../to-json.ts"
import { Cancellation, isStopped } from "./cancellation.ts"
import { LostFunction } from "./journal.ts"
import { signalOf, untilOf } from "./step-details.ts"
import { StepRecords } from "./step-records.ts"
import type { ApprovalOptions, StepContext, StepOptions, StepTools } from "./step-tools.ts"
import { Interrupted } from "./until-available.ts"

const APPROVAL_DEFAULTS = ["approve", "reject"] as const

export type ChildEnd = { output: Output | null } | { error: string; cancelled: boolean }

export interface ActivationPorts {
  clock: Clock
  random: Random
  log: FunctionLog
  signal: AbortSignal
  /** Aborted when a cancelled function has used up its grace period. */
  graceOver: AbortSignal
  /** Resolves when the steps are committed. */
  record(steps: Omit<NewStep, "row" | "attemptId">[]): Promise<void>
  /** Runs code in a transaction that also records its result. */
  transact(step: Step, code: (tx: SqlTransaction) => Promise<Json>, signal: AbortSignal): Promise<Json>
  readOutput(output: Output): Json | Promise<Json>
  writeOutput(step: { name: string; occurrence: number }, value: Json): Promise<Output>
  newChild(definition: ChildDefinition): Child
  /** Starts the child, unless it exists. */
  startChild(step: CallStep, child: Child, definition: ChildDefinition, input: unknown): Promise<void>
  /** Returns the end of a child; null: it has not ended. */
  childEnd(child: Child): Promise<ChildEnd | null>
  cancelChild(child: Child): Promise<void>
  /** Answers an approval. Returns the answer that came first. */
  answer(request: ApprovalRequest, answer: ApprovalAnswer): Promise<ApprovalAnswer>
}

export type ChildDefinition = TaskDefinition<never, unknown> | WorkflowDefinition<never, unknown>

export type ActivationEnd =
  | { kind: "returned"; value: unknown }
  | { kind: "threw"; error: unknown }
  | { kind: "suspended"; message: string; delayMs: number | null }

interface Pending {
  message: string
  /** When the step can go on without an event; null: by an event only. */
  until: number | null
  child?: Child
}

type Outcome<Value> = { value: Value } | { pending: Pending }

/** A step that waits for an event, with the rejection of its promise. */
interface PendingStep extends Pending {
  reject(error: unknown): void
}

/**
 * Returns what code whose activation is over awaits: its `catch` and `finally` blocks do not run. A promise of its own for each, so that
 * nothing keeps the waiting code in memory.
 */
const never = (): Promise<never> => new Promise(() => {})

export class Activation implements StepTools {
  readonly id: string
  readonly log: FunctionLog
  readonly signal: AbortSignal
  readonly #cancellation: Cancellation
  readonly #ports: ActivationPorts
  readonly #records: StepRecords
  readonly #signals: FunctionState["signals"]
  readonly #usedSignals = new Set<number>()
  /** Steps that run code or wait for a commit. */
  #active = 0
  readonly #pendingSteps = new Set<PendingStep>()
  #end: ((end: ActivationEnd) => void) | null = null

  constructor(id: string, { steps, signals }: FunctionState, ports: ActivationPorts) {
    this.id = id
    this.log = ports.log
    this.signal = ports.signal
    this.#cancellation = new Cancellation(ports.signal, ports.graceOver)
    this.#ports = ports
    this.#records = new StepRecords(steps, ports)
    this.#signals = signals
    for (const { details } of steps) {
      const signal = signalOf(details)
      if (signal !== null) this.#usedSignals.add(signal)
    }
  }

  /** Calls the function. Resolves when it has ended, or has to wait. */
  start(call: (step: StepTools) => unknown): Promise<ActivationEnd> {
    return new Promise((resolve) => {
      const onAbort = (): void => this.#interruptAll()
      this.signal.addEventListener("abort", onAbort, { once: true })
      this.#end = (end) => {
        this.#end = null
        this.signal.removeEventListener("abort", onAbort)
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
      const value = toJson(await this.#records.callCode(step, () => code(context)), `the result of step ${name}`)
      return async () => await this.#records.succeed(step, value as Result & Json)
    })

  readonly tx = <Result>(
    name: string,
    code: (tx: SqlTransaction, context: StepContext) => Result | Promise<Result>,
    options?: StepOptions,
  ): Promise<Result> =>
    this.#try("tx", name, options, async (step, context) => {
      await this.#records.flush()
      const run = async (tx: SqlTransaction): Promise<Json> => {
        if (this.#hasEnded) throw new LostFunction("the function ended while the transaction waited for others")
        return toJson(await this.#records.callCode(step, () => code(tx, context)), `the result of step ${name}`)
      }
      const value = await this.#ports.transact(step, run, context.signal)
      return async () => ({ value: value as Result })
    })

  /** Runs the code of a step, which returns how its result is recorded. Records a failure, and retries later. */
  #try<Result>(
    kind: "run" | "tx",
    name: string,
    options: StepOptions = {},
    execute: (step: Step, context: StepContext) => Promise<() => Promise<{ value: Result }>>,
  ): Promise<Result> {
    return this.#begin(kind, name, async (recorded) => {
      checkNames(options, STEP, `step ${name}`)
      const policy = retryPolicyOf(options.retry, `step ${name}`)
      let step = recorded
      const ended = await this.#ended(step)
      if (ended !== null) return ended.value as Result
      return await this.#work(step, async () => {
        const until = untilOf(step.details)
        if (until !== null && until > this.#ports.clock.now()) return { pending: { message: `retries ${name}`, until } }
        const signal = this.#cancellation.stepSignal
        if (signal.aborted) throw new CancelledError("the function was stopped")
        let record: () => Promise<{ value: Result }>
        try {
          record = await execute(step, { attempt: step.failures + 1, signal, log: this.log })
        } catch (error) {
          if (this.#isInterrupted(error)) throw error
          if (signal.aborted) throw this.#cancellation.isRequested ? this.#cancellation.error({ cause: error }) : error
          const { terminal, retryAfterMs } = markOf(error)
          const failures = step.failures + 1
          const isFault = error instanceof NotJsonError || error instanceof NonDeterminismError
          if (terminal === true || isFault || failures >= policy.maxAttempts) {
            this.log.error(error)
            throw await this.#fail(step, messageOf(error))
          }
          const delayMs = retryAfterMs ?? retryDelayMs(policy, failures, this.#ports.random.next())
          step = { ...step, failures, error: messageOf(error), details: { until: this.#ports.clock.now() + delayMs } }
          await this.#records.record(step)
          return { pending: { message: `retries ${name}`, until: untilOf(step.details) } }
        }
        return await record()
      })
    })
  }

  readonly sleep = (name: string, duration: Duration): Promise<void> =>
    this.#begin("sleep", name, async (step) => {
      if ((await this.#ended(step)) !== null) return
      const until = untilOf(step.details) ?? this.#ports.clock.now() + toMs(duration, `step ${name}: duration`)
      await this.#work(step, async () => {
        if (until <= this.#ports.clock.now()) return await this.#records.succeed(step, null)
        if (!this.#records.isRecorded(step)) await this.#records.record({ ...step, details: { until } })
        return { pending: { message: `sleeps (${name})`, until } }
      })
    })

  readonly waitFor = <Payload>(
    { name, schema }: SignalDefinition<Payload>,
    options: { timeout?: Duration } = {},
  ): Promise<Payload | null> =>
    this.#begin("wait", name, async (step) => {
      checkNames(options, WAIT, `the wait for ${name}`)
      const { timeout } = options
      const ended = await this.#ended(step)
      const check = async (payload: Json): Promise<Payload | null> =>
        payload === null ? null : ((await validate(schema, payload, `the signal ${name}`)) as Payload)
      if (ended !== null) return await check(ended.value)
      const found = this.#signals.find((signal) => signal.name === name && !this.#usedSignals.has(signal.id))
      const timeoutMs = optionalMs(timeout, `the wait for ${name}: timeout`)
      const until = untilOf(step.details) ?? (timeoutMs === null ? null : this.#ports.clock.now() + timeoutMs)
      if (found !== undefined) this.#usedSignals.add(found.id)
      const payload = await this.#work<Json>(step, async () => {
        if (found !== undefined) return await this.#records.succeed({ ...step, details: { signal: found.id } }, found.payload)
        if (until !== null && until <= this.#ports.clock.now()) return await this.#records.succeed(step, null)
        if (!this.#records.isRecorded(step)) await this.#records.record({ ...step, details: until === null ? {} : { until } })
        return { pending: { message: `waits for ${name}`, until } }
      })
      return await check(payload)
    })

  /** Waits for an approval. A timeout also records an answer: if an answer and a timeout coincide, only the first counts. */
  readonly approval = (name: string, options: ApprovalOptions = {}): Promise<ApprovalAnswer> =>
    this.#begin("approval", name, async (step) => {
      checkNames(options, APPROVAL, `step ${name}`)
      checkOneOf(options.default ?? "reject", APPROVAL_DEFAULTS, `step ${name}: default`)
      const ended = await this.#ended(step)
      if (ended !== null) return ended.value as unknown as ApprovalAnswer
      const timeoutMs = optionalMs(options.timeout, `step ${name}: timeout`)
      const request = approvalRequestOf(step.details) ?? this.#newRequest(options, timeoutMs)
      const { until = null } = request
      const found = this.#signals.find((signal) => signal.name === approvalSignal(request).name)
      const answer = await this.#work<Json>(step, async () => {
        if (found !== undefined) return await this.#records.succeed(step, found.payload)
        const now = this.#ports.clock.now()
        if (until !== null && until <= now) {
          const comment = `nobody answered${timeoutMs === null ? "" : ` within ${formatDuration(timeoutMs)}`}`
          const byDefault = { approved: request.default === "approve", comment, by: null, at: iso(now) }
          return await this.#records.succeed(step, { ...(await this.#ports.answer(request, byDefault)) })
        }
        if (!this.#records.isRecorded(step)) await this.#records.record({ ...step, details: { ...request } })
        const about = request.message === undefined ? "" : `: ${request.message}`
        return { pending: { message: `waits for approval (${name})${about}`, until } }
      })
      return answer as unknown as ApprovalAnswer
    })

  #newRequest({ message, default: fallback = "reject" }: ApprovalOptions, timeoutMs: number | null): ApprovalRequest {
    const { clock, random } = this.#ports
    return {
      approval: random.hex128(),
      default: fallback,
      ...(message !== undefined && { message }),
      ...(timeoutMs !== null && { until: clock.now() + timeoutMs }),
    }
  }

  readonly call = <Input, Out>(
    definition: TaskDefinition<Input, Out> | WorkflowDefinition<Input, Out>,
    input: NoInfer<Input>,
    options: { name?: string } = {},
  ): Promise<Out> => {
    const { name = definition.name } = options
    return this.#begin("call", name, async (step) => {
      checkNames(options, CALL, `step.call of ${name}`)
      const target = definition as unknown as ChildDefinition
      if (target.kind !== "task" && target.kind !== "workflow")
        throw new TypeError(`step.call of ${name}: only what task, txTask and workflow returned can be called`)
      const ended = await this.#ended(step)
      if (ended !== null) return ended.value as Out
      const recorded = childOf(step.details)
      const child = recorded ?? this.#ports.newChild(target)
      return await this.#work(step, async () => {
        const end = recorded === null ? null : await this.#ports.childEnd(child)
        if (end === null) {
          // The id is recorded first, so that a function that is interrupted here starts no second child.
          if (recorded === null) {
            await validate(definition.schema, input, `the input of ${definition.name}`)
            await this.#records.record({ ...step, details: { ...child } })
          }
          if (child.made !== true) await this.#ports.startChild(step, child, target, input)
          return { pending: { message: `waits for ${name}`, until: null, child } }
        }
        if ("error" in end) throw await this.#fail({ ...step, details: { ...child } }, end.error)
        return await this.#records.succeed(
          step,
          (end.output === null ? null : await this.#ports.readOutput(end.output)) as Out & Json,
        )
      })
    })
  }

  readonly now = (): Date => new Date(this.#value("now", () => this.#ports.clock.now()) as number)

  readonly random = (): number => this.#value("random", () => this.#ports.random.next()) as number

  readonly patch = (name: string): boolean => {
    const step = this.#records.next("patch", name)
    if (step.state === "success") return true
    if (this.#records.hasUnreached) return false
    this.#records.succeedLater(step, true)
    return true
  }

  /** Returns a value that is recorded with the next commit: nothing that depends on it is committed before. */
  #value(name: string, create: () => number): Json {
    const step = this.#records.next("value", name)
    if (step.output !== null && "inline" in step.output) return step.output.inline
    const value = create()
    this.#records.succeedLater(step, value)
    return value
  }

  /** Returns the result of a step that has ended, or throws its error; null: it has not ended. */
  async #ended(step: Step): Promise<{ value: Json } | null> {
    const { state, output } = step
    if (state === "failed") throw this.#failure(step)
    if (state !== "success") return null
    if (output === null) return { value: null }
    return { value: await this.#whileActive(async () => await this.#ports.readOutput(output)) }
  }

  /** Records a failure, and returns the error that the function gets, now and when it runs again. */
  async #fail(step: Step, reason: string): Promise<TaskFailedError> {
    const failed: Step = { ...step, state: "failed", failures: step.failures + 1, error: reason }
    await this.#records.record({ ...failed, finishedAt: iso(this.#ports.clock.now()) })
    return this.#failure(failed)
  }

  #failure({ name, details, error }: Step): TaskFailedError {
    const reason = error ?? "no reason is known"
    const child = childOf(details)
    return child === null
      ? new TaskFailedError(`step ${name} of`, this.id, reason)
      : new TaskFailedError(name, child.id, reason)
  }

  /** Records the values and patches that no later step has taken along, at the end of the function. */
  async flush(): Promise<void> {
    await this.#records.flush()
  }

  // -- suspension and cancel -------------------------------------------------------------------------------------------------------

  /**
   * Begins a step. After the end of the function, a step never starts: its promise stays pending. A cancel may reject a step that the
   * function does not await: that is not an unhandled rejection.
   */
  #begin<Result>(kind: StepKind, name: string, perform: (step: Step) => Promise<Result>): Promise<Result> {
    const begun = async (): Promise<Result> => {
      if (this.#hasEnded) return await never()
      try {
        return await perform(this.#records.next(kind, name))
      } catch (error) {
        if (!this.#isInterrupted(error)) throw error
        // The function goes on in another activation: its `catch` and `finally` blocks do not run in this one.
        this.#end?.({ kind: "threw", error })
        return await never()
      }
    }
    const result = begun()
    result.catch(() => {})
    return result
  }

  get #hasEnded(): boolean {
    return this.#end === null
  }

  /**
   * Returns whether an error ends the activation and not the step: another process has the function, or this one stops. An operation of
   * Ork that the code of a step calls, and that the store does not answer, fails the step.
   */
  #isInterrupted(error: unknown): boolean {
    return error instanceof LostFunction || error instanceof Interrupted || isStopped(this.signal)
  }

  /**
   * Runs a part of a step that has not ended. On a cancel, a step that began before it rejects; a later step waits inside this
   * activation.
   */
  async #work<Value>(step: Step, part: () => Promise<Outcome<Value>>): Promise<Value> {
    const beganBeforeCancel = this.#records.isRecorded(step) || !this.#cancellation.isRequested
    const outcome = await this.#whileActive(async (): Promise<Outcome<Value>> => {
      for (;;) {
        if (this.#hasEnded) return await never()
        if (this.#cancellation.concerns(this.#records.isRecorded(step))) throw await this.#interrupted(childOf(step.details))
        const reached = await part()
        if (!this.#cancellation.isRequested) return reached
        if (beganBeforeCancel) throw await this.#interrupted("pending" in reached ? (reached.pending.child ?? null) : null)
        if ("value" in reached) return reached
        await this.#waitUntil(reached.pending)
      }
    })
    return "value" in outcome ? outcome.value : await this.#suspendStep(outcome.pending)
  }

  /** Runs a part of a step. The function is not suspended until it ends. */
  async #whileActive<Value>(part: () => Promise<Value>): Promise<Value> {
    this.#active++
    try {
      return await part()
    } finally {
      this.#active--
      this.#suspendWhenIdle()
    }
  }

  #suspendStep(pending: Pending): Promise<never> {
    return new Promise<never>((_, reject) => {
      this.#pendingSteps.add({ ...pending, reject })
      this.#suspendWhenIdle()
    })
  }

  /** Waits until a time in a function that is being cancelled. Rejects a wait for anything else. */
  async #waitUntil({ message, until }: Pending): Promise<void> {
    if (until === null) throw new CancelledError(`the function was cancelled, and no longer waits: ${message}`)
    const { clock } = this.#ports
    await sleep(clock, until - clock.now())
  }

  /** Rejects the steps that the function awaits, when it is cancelled. */
  #interruptAll(): void {
    if (!this.#cancellation.isRequested) return
    for (const pending of this.#pendingSteps) {
      this.#pendingSteps.delete(pending)
      const interrupted = this.#whileActive(() => this.#interrupted(pending.child ?? null))
      interrupted.then(pending.reject, pending.reject)
    }
  }

  /**
   * Cancels what a step waits for, and returns the error of the step. Branches that run at the same time get one tick to reach their next
   * steps, which reject too: a step that begins after the first error counts as one of a `finally` block.
   */
  async #interrupted(child: Child | null): Promise<CancelledError> {
    if (child !== null) await this.#ports.cancelChild(child)
    await new Promise((resolve) => setImmediate(resolve))
    return this.#cancellation.error()
  }

  /** Suspends the function when nothing of it can go on: it gets one tick to reach its next step. */
  #suspendWhenIdle(): void {
    // While the function does not wait, or a step is active, nothing is to be done: whatever changes that calls this method again.
    if (this.#active > 0 || this.#pendingSteps.size === 0) return
    setImmediate(() => {
      if (this.#hasEnded || this.#active > 0 || this.#pendingSteps.size === 0) return
      const dueTimes = [...this.#pendingSteps].flatMap(({ until }) => until ?? [])
      const delayMs = dueTimes.length === 0 ? null : Math.max(0, Math.min(...dueTimes) - this.#ports.clock.now())
      this.#end?.({ kind: "suspended", message: [...this.#pendingSteps].map(({ message }) => message).join(", "), delayMs })
    })
  }
}
