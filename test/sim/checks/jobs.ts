// Checks jobs: what handlers did, what was committed and what users were told must fit together.

import type { RetryPolicy } from "../../../src/core/model/workflow.ts"
import { minRetryDelay } from "./model.ts"
import type { NewJob } from "../../../src/store/contract/jobs.ts"
import type { EngineProcess } from "../engine/engine-process.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import type { ResultChange } from "./commits.ts"

export interface JobAttempt {
  id: string
  attemptId: string
  number: number
}

interface LaunchedJob extends JobAttempt {
  process: EngineProcess
  holder: string | null
}

/** Lost attempts of a job with retries as tasks have them. */
const LOST_RETRIES = 3

/** Ends of attempts that were committed. */
interface JobHistory {
  failed: number
  /** Lost attempts, of jobs with retries as tasks have them: those have a budget of their own. */
  lost: number
  succeeded: boolean
  /** The time of day of the last end. */
  endedAt: number
}

export class JobLog {
  readonly #simulation: Simulation
  /** Jobs of all requests, by id. */
  readonly #jobs: Map<string, NewJob>
  /** Jobs that a function has cancelled. */
  readonly #cancelled = new Set<string>()
  readonly #live = new Map<string, LaunchedJob>()
  readonly #histories = new Map<string, JobHistory>()
  /** Jobs that an engine acknowledged. */
  readonly #acknowledged = new Set<string>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
    this.#jobs = new Map(simulation.scenario.jobs.flatMap(({ jobs }) => jobs.map((job) => [job.id, job])))
  }

  get idle(): boolean {
    return this.#live.size === 0
  }

  countOn(process: EngineProcess): number {
    return [...this.#live.values()].filter((attempt) => attempt.process === process).length
  }

  addLaunch(process: EngineProcess, attempt: JobAttempt, holder: string | null): void {
    const launched = { ...attempt, process, holder }
    const others = [...this.#live.values()]
    this.#live.set(attempt.attemptId, launched)
    if (!this.#isAbandoned(launched))
      this.#checkLaunch(
        launched,
        others.filter((other) => !this.#isAbandoned(other)),
      )
  }

  addResult(attemptId: string): void {
    this.#live.delete(attemptId)
  }

  addCrash(process: EngineProcess): void {
    for (const { attemptId, process: own } of this.#live.values()) if (own === process) this.#live.delete(attemptId)
  }

  #isAbandoned({ holder }: LaunchedJob): boolean {
    return holder !== null && this.#simulation.deadHolders.has(holder)
  }

  #history(id: string): JobHistory {
    const history = this.#histories.get(id) ?? { failed: 0, lost: 0, succeeded: false, endedAt: 0 }
    this.#histories.set(id, history)
    return history
  }

  // -- launches and results ----------------------------------------------------------------------------------------------------------

  #checkLaunch({ id, number }: LaunchedJob, live: readonly LaunchedJob[]): void {
    const fail = (invariant: string, why: string): never => {
      throw new Violation(invariant, `attempt ${number} of job ${id} ${why}`)
    }
    const job = this.#jobs.get(id)!
    const { failed, succeeded, endedAt } = this.#history(id)
    if (succeeded) fail("a success is not run again", "was launched after a success")
    if (live.some((other) => other.id === id)) fail("a task has one live attempt", "was launched beside another")
    const policy = policyOf(job)
    const { maxAttempts } = policy
    if (failed >= maxAttempts) fail("retries stay within their budget", `follows ${failed} of ${maxAttempts}`)
    const missing = job.dependencies.find((dependency) => !this.#hasSucceeded(dependency))
    if (missing !== undefined) fail("a job starts after its dependencies", `was launched before ${missing} had succeeded`)
    if (job.concurrencyKey !== null) {
      const used = live.filter((other) => this.#jobs.get(other.id)!.concurrencyKey === job.concurrencyKey).length
      if (used >= job.concurrencyLimit) fail("limits hold", `runs beside ${used} others with the key ${job.concurrencyKey}`)
    }
    const dueAt = failed === 0 ? 0 : endedAt + minRetryDelay(policy, failed)
    if (this.#simulation.clock.latest < dueAt) fail("retries wait for their delay", "is too early")
  }

  /** A dependency with a key that another job has stands for that job. */
  #hasSucceeded(id: string): boolean {
    const { key, name } = this.#jobs.get(id)!
    const isSame = (other: NewJob): boolean => other.id === id || (key !== null && other.key === key && other.name === name)
    return [...this.#jobs.values()].some((other) => isSame(other) && this.#history(other.id).succeeded)
  }

  apply(id: string, { kind, result }: ResultChange): void {
    const history = this.#history(id)
    if (history.succeeded) throw new Violation("a result is applied once", `job ${id} ended again as ${result.state}`)
    history.endedAt = result.state === "lost" ? 0 : this.#simulation.clock.now()
    const { retry } = this.#jobs.get(id)!
    const isLostFree = retry !== null && result.state === "lost"
    if (result.state === "success") history.succeeded = true
    else if (isLostFree) history.lost += 1
    else history.failed += 1
    const { maxAttempts } = policyOf(this.#jobs.get(id)!)
    const hasBudget = isLostFree ? history.lost <= LOST_RETRIES : history.failed < maxAttempts
    const isRetried = result.state !== "success" && hasBudget
    if (isRetried === (kind === "retry") || this.#cancelled.has(id)) return
    throw new Violation(
      "retries stay within their budget",
      `job ${id}: ${result.state} became a ${kind} after ${history.failed} of ${maxAttempts} attempts`,
    )
  }

  /** Jobs of functions are known when they are created. */
  noteCreated(jobs: readonly NewJob[], created: object): void {
    if ("rejected" in created) return
    for (const job of jobs) if (!this.#jobs.has(job.id)) this.#jobs.set(job.id, job)
  }

  noteCancelled(id: string, job: object): void {
    if (!("rejected" in job)) this.#cancelled.add(id)
  }

  // -- what users are told -----------------------------------------------------------------------------------------------------------

  /** `created`: the jobs that stand for those of the request. */
  acknowledge(requested: readonly NewJob[], created: readonly { id: string; key: string | null }[]): void {
    for (const [i, { id, key }] of created.entries()) {
      this.#acknowledged.add(id)
      if (id === requested[i]!.id || (key !== null && key === requested[i]!.key)) continue
      throw new Violation("a key creates one job", `job ${requested[i]!.id} was created as ${id}`)
    }
  }

  checkFinalState(): void {
    const stored = new Map(this.#simulation.tables.jobs().map((job) => [job.id, job.status]))
    for (const id of this.#acknowledged)
      if (!stored.has(id)) throw new Violation("no acknowledged job is lost", `job ${id} is not stored`)
    const keys = [...stored.keys()].flatMap((id) => this.#jobs.get(id)!.key ?? [])
    if (new Set(keys).size < keys.length) throw new Violation("a key creates one job", `the stored keys are ${keys.join(", ")}`)
    for (const [id, status] of stored) {
      if (this.#cancelled.has(id)) continue
      const expected = this.#history(id).succeeded
        ? "COMPLETED"
        : this.#history(id).failed + this.#history(id).lost > 0
          ? "FAILED"
          : "BLOCKED"
      if (status !== expected) throw new Violation("jobs end as their attempts did", `job ${id} is ${status}, not ${expected}`)
      const isBlocked = this.#jobs.get(id)!.dependencies.some((dependency) => !this.#hasSucceeded(dependency))
      if (isBlocked !== (status === "BLOCKED"))
        throw new Violation("a job starts after its dependencies", `job ${id} is ${status}`)
    }
  }
}

const policyOf = ({ retry, retryPolicy }: NewJob): RetryPolicy => {
  const { max_attempts, base_delay_seconds, max_delay_seconds, backoff_strategy } = retryPolicy
  return (
    retry ?? {
      maxAttempts: max_attempts,
      backoff: backoff_strategy.toLowerCase() as "fixed" | "linear" | "exponential",
      baseDelayMs: base_delay_seconds * 1000,
      maxDelayMs: max_delay_seconds * 1000,
      jitter: false,
    }
  )
}
