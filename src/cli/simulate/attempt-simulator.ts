// Plays the attempts of one run: each takes its usual time and gives its usual output, unless a fault of the run hits it.

import type { Json } from "../../core/values/json.ts"
import type { StopReason } from "../../executors/executor.ts"
import { LostWorker } from "../../sdk/test-kit/mocked-executor.ts"
import { seededRandom } from "../../sdk/test-kit/seeded-random.ts"
import type { MockContext } from "../../sdk/test.ts"
import type { Fault } from "./fault-plan.ts"

export type AttemptEnd = "success" | "failed" | "timeout" | "cancelled" | "lost" | "killed"

const ENDS = {
  success: "succeeds",
  failed: "fails",
  timeout: "times out",
  cancelled: "is cancelled",
  lost: "is lost",
  killed: "is killed",
} as const satisfies Record<AttemptEnd, string>

/** Times are milliseconds after the start of the run. */
export interface AttemptRecord {
  key: string
  task: string
  path: string
  attempt: number
  startedMs: number
  /** null: the attempt goes on. */
  end: AttemptEnd | null
  /** The work was done, also if its result was lost. */
  workDone: boolean
}

/** `ms`: time after the start of the run. */
export interface StoryLine {
  ms: number
  text: string
}

/** The result and the duration of an attempt without faults. */
export interface BaselineAttempt {
  output: Json
  /** Error of a simulated failure. */
  error: string
  /** null: not known. */
  usualMs: number | null
  timeoutMs: number | null
}

export interface AttemptSimulatorOptions {
  seed: number
  faults: readonly Fault[]
  elapsed: () => number
  usual: (context: MockContext, key: string) => BaselineAttempt
}

type TaskFault = Extract<Fault, { key: string }>
type TimedFault = Extract<Fault, { atMs: number }>

/** An unknown time is short, and a slow attempt takes all that its timeout allows. */
const SHORTEST_MS = 1000
const LONGEST_MS = 10_000
const SLOWEST_PART = 0.95
const UNLIMITED_MS = 86_400_000
/** Time after which a worker is given up: its lease. */
const LEASE_MS = 10_000

export class AttemptSimulator {
  readonly attempts: AttemptRecord[] = []
  /** The events of the run, oldest first. */
  readonly story: StoryLine[] = []
  readonly #options: AttemptSimulatorOptions
  readonly #faults: ReadonlyMap<string, TaskFault>

  constructor(options: AttemptSimulatorOptions) {
    this.#options = options
    this.#faults = new Map(options.faults.flatMap((fault) => ("key" in fault ? [[fault.key, fault]] : [])))
  }

  get timedFaults(): TimedFault[] {
    return this.#options.faults.flatMap((fault) => ("atMs" in fault ? [fault] : [])).toSorted((a, b) => a.atMs - b.atMs)
  }

  get isIdle(): boolean {
    return this.attempts.every(({ end }) => end !== null)
  }

  note(text: string): void {
    this.story.push({ ms: this.#options.elapsed(), text })
  }

  /** Notes that all processes are killed. */
  crash(): void {
    this.note("fault: all processes of Ork are killed, and start again")
    for (const record of this.attempts) if (record.end === null) this.#end(record, "killed")
  }

  async attempt(context: MockContext, key: string): Promise<Json> {
    const { task, path, attempt } = context
    const startedMs = this.#options.elapsed()
    const record: AttemptRecord = { key, task, path, attempt, startedMs, end: null, workDone: false }
    this.attempts.push(record)
    this.note(`${key}: attempt ${attempt} starts`)
    try {
      const output = await this.#work(context, record)
      this.#end(record, "success")
      return output
    } catch (error) {
      this.#end(record, endOf(error, context.signal))
      throw error
    }
  }

  #end(record: AttemptRecord, end: AttemptEnd): void {
    record.end = end
    this.note(`${record.key}: attempt ${record.attempt} ${ENDS[end]}`)
  }

  async #work(context: MockContext, record: AttemptRecord): Promise<Json> {
    const { key, attempt } = record
    const usual = this.#options.usual(context, key)
    const usualMs = usual.usualMs ?? this.#shortMs(key, usual.timeoutMs)
    const fault = this.#faults.get(key)
    if (fault?.kind === "outage") await this.#failDuringOutage(fault, context, usual.error)
    const firstFault = attempt === 1 ? fault : undefined
    switch (firstFault?.kind) {
      case "failure":
        this.note(`fault: ${key} fails`)
        await context.sleep(usualMs)
        throw new Error(usual.error)
      case "silence":
        this.note(`fault: ${key} waits in vain`)
        await new Promise<never>((_, reject) => context.signal.addEventListener("abort", () => reject(new Error("stopped"))))
        break
      case "slowness":
        this.note(`fault: ${key} is slow`)
        await context.sleep(slowMs(firstFault.factor, usual))
        break
      case "lost_worker":
        this.note(
          `fault: the worker of ${key} is lost ${firstFault.afterWork ? "after its work, before the result is recorded" : "during its work"}`,
        )
        await context.sleep(firstFault.afterWork ? usualMs : Math.floor(usualMs / 2))
        record.workDone = firstFault.afterWork
        await context.sleep(LEASE_MS)
        throw new LostWorker()
      default:
        await context.sleep(usualMs)
    }
    record.workDone = true
    return usual.output
  }

  /** Fails while the outage lasts. */
  async #failDuringOutage({ key, ms }: Extract<Fault, { kind: "outage" }>, context: MockContext, error: string): Promise<void> {
    const first = this.attempts.find((record) => record.key === key)!
    if (this.#options.elapsed() >= first.startedMs + ms) return
    if (first.attempt === context.attempt) this.note(`fault: what ${key} needs is down for ${Math.round(ms / 1000)}s`)
    throw new Error(error)
  }

  #shortMs(key: string, timeoutMs: number | null): number {
    const part = seededRandom(`${this.#options.seed} ${key}`).next()
    const ms = SHORTEST_MS + part * (LONGEST_MS - SHORTEST_MS)
    return Math.floor(Math.min(ms, (timeoutMs ?? Infinity) / 10))
  }
}

const slowMs = (factor: number, { usualMs, timeoutMs }: BaselineAttempt): number =>
  usualMs === null ? Math.floor((timeoutMs ?? UNLIMITED_MS) * SLOWEST_PART) : Math.floor(usualMs * factor)

const endOf = (error: unknown, signal: AbortSignal): AttemptEnd => {
  if (error instanceof LostWorker) return "lost"
  if (!signal.aborted) return "failed"
  const reason = signal.reason as StopReason
  return reason === "cancel" || reason === "timeout" ? (reason === "cancel" ? "cancelled" : "timeout") : "lost"
}
