// Checks jobs: what handlers did, what was committed and what users were told must fit together.

import type { RetryPolicy } from "../../../src/core/model/workflow.ts"
import { isDeepStrictEqual } from "node:util"
import { minRetryDelay } from "./model.ts"
import type { CreateJobsOptions, JobEdit, JobRejection, JobRow, NewJob } from "../../../src/store/contract/jobs.ts"
import type { JobClaim } from "../../../src/store/contract/claim.ts"
import type { StopReason } from "../../../src/executors/executor.ts"
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
  /** In milliseconds since the start of the simulation. */
  launchedAt: number
  isStopped: boolean
}

/** The time limit of an attempt of a job without `timeoutMs`. */
const DEFAULT_TIMEOUT_MS = 3_600_000
/** Lost attempts of a job with retries as tasks have them. */
const LOST_RETRIES = 3

/** Time within which an engine notices that an attempt is over its timeout. */
const TIMEOUT_SLACK_MS = 1000

/** Commits since a job was created, or a user retried it. */
interface JobHistory {
  failed: number
  /** Lost attempts, of jobs with retries as tasks have them: those have a budget of their own. */
  lost: number
  succeeded: boolean
  /** The time of day of the last end. */
  endedAt: number
  isCancelled: boolean
  /** The earliest time of day at which it could become available. */
  availableAt: number
}

const newHistory = (availableAt: number): JobHistory => ({
  failed: 0,
  lost: 0,
  succeeded: false,
  endedAt: 0,
  isCancelled: false,
  availableAt,
})

export class JobLog {
  readonly #simulation: Simulation
  /** Jobs of all requests, by id. */
  readonly #jobs: Map<string, NewJob>
  readonly #deleted = new Set<string>()
  /** Jobs that have failed or were cancelled at some time: what they have blocked stays blocked. */
  readonly #everFailed = new Set<string>()
  /** The job of each claimed attempt. */
  readonly #claimed = new Map<string, string>()
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
    const launched = { ...attempt, process, holder, launchedAt: this.#simulation.clock.elapsed, isStopped: false }
    const others = [...this.#live.values()]
    this.#live.set(attempt.attemptId, launched)
    if (!this.#isAbandoned(launched))
      this.#checkLaunch(
        launched,
        others.filter((other) => !this.#isAbandoned(other)),
      )
  }

  addResult(attemptId: string): void {
    const attempt = this.#live.get(attemptId)
    this.#live.delete(attemptId)
    if (attempt === undefined || attempt.isStopped) return
    const { timeoutMs } = this.#jobs.get(attempt.id)!
    const ranMs = this.#simulation.clock.elapsed - attempt.launchedAt
    if (timeoutMs === null || ranMs <= timeoutMs + TIMEOUT_SLACK_MS) return
    const message = `attempt ${attempt.number} of job ${attempt.id} ran ${ranMs} ms, with ${timeoutMs} ms allowed`
    this.#simulation.fail(new Violation("a timeout stops an attempt", message))
  }

  /** An attempt is stopped only for a reason. */
  checkStop(attemptId: string, reason: StopReason): void {
    const attempt = this.#live.get(attemptId)
    if (attempt === undefined) return
    attempt.isStopped = true
    const { id, process, launchedAt } = attempt
    const ranMs = this.#simulation.clock.elapsed - launchedAt
    const isJustified = {
      cancel: this.#deleted.has(id) || this.isCancelled(id),
      timeout: ranMs >= (this.#jobs.get(id)!.timeoutMs ?? DEFAULT_TIMEOUT_MS),
      shutdown: process.draining,
      lost: true,
    }[reason]
    if (isJustified) return
    throw new Violation("no task is stopped without a reason", `attempt ${attempt.number} of job ${id}: ${reason}`)
  }

  addCrash(process: EngineProcess): void {
    for (const { attemptId, process: own } of this.#live.values()) if (own === process) this.#live.delete(attemptId)
  }

  #isAbandoned({ holder }: LaunchedJob): boolean {
    return holder !== null && this.#simulation.deadHolders.has(holder)
  }

  #history(id: string): JobHistory {
    const history = this.#histories.get(id) ?? newHistory(0)
    this.#histories.set(id, history)
    return history
  }

  // -- claims ------------------------------------------------------------------------------------------------------------------------

  checkClaim({ row, job: claimed, attempt, attemptId }: JobClaim): void {
    const id = this.#simulation.tables.taskByRow(row)!.path
    this.#claimed.set(attemptId, id)
    const fail = (invariant: string, why = ""): never => {
      throw new Violation(invariant, `attempt ${attempt} of job ${id}${why}`)
    }
    if (this.#deleted.has(id)) fail("a deleted job is not started")
    if (this.isCancelled(id)) fail("a cancelled job is not started")
    const job = this.#jobs.get(id)!
    if (!isDeepStrictEqual(claimed.payload, job.payload))
      fail("a job has its last payload", ` has ${JSON.stringify(claimed.payload)}, and not ${JSON.stringify(job.payload)}`)
    const expiresAt = this.#expiryOf(job)
    const now = this.#simulation.clock.now()
    if (attempt === 1 && now > expiresAt) fail("an expired job does not start", ` is ${now - expiresAt} ms too late`)
  }

  /** The time of day at which a job that has not started expires. */
  #expiryOf(job: NewJob): number {
    if (job.expiresMs === null) return Number.POSITIVE_INFINITY
    const completed = job.dependencies.flatMap((id) => this.#sameAs(id).map((other) => this.#history(other).endedAt))
    return Math.max(this.#history(job.id).availableAt, ...completed) + job.expiresMs
  }

  /** Returns whether the attempt is one of a job that was deleted since its claim. */
  isOfDeleted(attemptId: string): boolean {
    const id = this.#claimed.get(attemptId)
    return id !== undefined && this.#deleted.has(id)
  }

  /** Returns whether a user has cancelled the job and has not retried it since. */
  isCancelled(id: string): boolean {
    return this.#history(id).isCancelled
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
    for (const { key, cap } of job.limits) {
      const used = live.filter((other) => this.#jobs.get(other.id)!.limits.some((limit) => limit.key === key)).length
      if (used >= cap) fail("limits hold", `runs beside ${used} others with the limit ${key}`)
    }
    if (job.concurrencyKey !== null) {
      const used = live.filter((other) => this.#jobs.get(other.id)!.concurrencyKey === job.concurrencyKey).length
      if (used >= job.concurrencyLimit) fail("limits hold", `runs beside ${used} others with the key ${job.concurrencyKey}`)
    }
    const dueAt = failed === 0 ? 0 : endedAt + minRetryDelay(policy, failed)
    if (this.#simulation.clock.latest < dueAt) fail("retries wait for their delay", "is too early")
  }

  /** Returns the jobs that a dependency may stand for: one with a key that another job has stands for that job. */
  #sameAs(id: string): string[] {
    const { key, name } = this.#jobs.get(id)!
    const isSame = (other: NewJob): boolean => other.id === id || (key !== null && other.key === key && other.name === name)
    return [...this.#jobs.values()].filter(isSame).map((other) => other.id)
  }

  #hasSucceeded(id: string): boolean {
    return this.#sameAs(id).some((other) => this.#history(other).succeeded)
  }

  apply(id: string, change: ResultChange): void {
    const { kind, result } = change
    const history = this.#history(id)
    if (history.succeeded) throw new Violation("a result is applied once", `job ${id} ended again as ${result.state}`)
    history.endedAt = result.state === "lost" ? 0 : this.#simulation.clock.now()
    const job = this.#jobs.get(id)!
    const isLostFree = job.retry !== null && result.state === "lost"
    if (change.kind === "finish" && change.status === "success") history.succeeded = true
    else if (isLostFree) history.lost += 1
    else history.failed += 1
    if (kind === "finish" && !history.succeeded) this.#everFailed.add(id)
    const { maxAttempts } = policyOf(job)
    const hasBudget = isLostFree ? history.lost <= LOST_RETRIES : history.failed < maxAttempts
    const isRetried = !history.succeeded && hasBudget
    if (isRetried === (kind === "retry") || history.isCancelled) return
    throw new Violation(
      "retries stay within their budget",
      `job ${id}: ${result.state} became a ${kind} after ${history.failed} of ${maxAttempts} attempts`,
    )
  }

  // -- requests of users and functions that were committed -----------------------------------------------------------------------------

  noteCreated(
    jobs: readonly NewJob[],
    created: readonly JobRow[] | JobRejection,
    { onConflict }: CreateJobsOptions = {},
  ): void {
    if ("rejected" in created) return
    for (const [i, job] of jobs.entries()) {
      const { id, created: isNew } = created[i]!
      if (isNew) this.#start(job)
      else if (onConflict === "replace" && this.#mayBeReplaced(id)) {
        const { dependencies } = this.#jobs.get(id)!
        this.#start({ ...job, id, dependencies })
      }
    }
  }

  #start(job: NewJob): void {
    const now = this.#simulation.clock.now()
    const availableAt = job.runAt === null ? now + (job.delayMs ?? 0) : Math.max(now, Date.parse(job.runAt))
    this.#jobs.set(job.id, job)
    this.#deleted.delete(job.id)
    this.#histories.set(job.id, newHistory(availableAt))
  }

  #mayBeReplaced(id: string): boolean {
    const { status, attempt } = this.#simulation.tables.job(id)!
    return attempt === 0 && (status === "PENDING" || status === "READY")
  }

  noteCancelled(id: string, job: object): void {
    if ("rejected" in job) return
    this.#history(id).isCancelled = true
    this.#everFailed.add(id)
  }

  noteRetried(id: string, job: object): void {
    if ("rejected" in job) return
    if (this.#history(id).succeeded) throw new Violation("a success is not run again", `job ${id} was retried`)
    // Of a job that has not failed or was cancelled, nothing but its expiry can have been the end.
    this.#everFailed.add(id)
    this.#histories.set(id, newHistory(this.#simulation.clock.now()))
  }

  noteDeleted(id: string, rejected: JobRejection | null): void {
    if (rejected === null) this.#deleted.add(id)
  }

  noteEdited(id: string, change: JobEdit, job: object): void {
    if (!("rejected" in job)) this.#jobs.set(id, { ...this.#jobs.get(id)!, ...change })
  }

  // -- what users are told -----------------------------------------------------------------------------------------------------------

  isAcknowledged(id: string): boolean {
    return this.#acknowledged.has(id)
  }

  /** `created`: the jobs that stand for those of the request. */
  acknowledge(requested: readonly NewJob[], created: readonly { id: string; key: string | null }[]): void {
    for (const [i, { id, key }] of created.entries()) {
      this.#acknowledged.add(id)
      if (id === requested[i]!.id || (key !== null && key === requested[i]!.key)) continue
      throw new Violation("a key creates one job", `job ${requested[i]!.id} was created as ${id}`)
    }
  }

  checkFinalState(): void {
    const stored = new Map(this.#simulation.tables.jobs().map((job) => [job.id, job]))
    for (const id of this.#acknowledged)
      if (!stored.has(id) && !this.#deleted.has(id))
        throw new Violation("no acknowledged job is lost", `job ${id} is not stored`)
    const keys = [...stored.keys()].flatMap((id) => this.#jobs.get(id)!.key ?? [])
    if (new Set(keys).size < keys.length) throw new Violation("a key creates one job", `the stored keys are ${keys.join(", ")}`)
    for (const { id, status, error } of stored.values()) {
      if (this.#deleted.has(id)) throw new Violation("a deleted job is gone", `job ${id} is ${status}`)
      const { succeeded, isCancelled, failed, lost } = this.#history(id)
      const isExpired = error === "expired" && this.#isExpiryDue(id)
      const hasFailed = isCancelled || failed + lost > 0 || isExpired
      const expected = succeeded ? "COMPLETED" : hasFailed ? "FAILED" : "BLOCKED"
      if (status !== expected) throw new Violation("jobs end as their attempts did", `job ${id} is ${status}, not ${expected}`)
      const { dependencies } = this.#jobs.get(id)!
      const isBlocked = dependencies.some((dependency) => !this.#hasSucceeded(dependency))
      const mayBeBlocked = isBlocked || dependencies.some((dependency) => this.#hasEverFailed(dependency))
      if (status === "BLOCKED" ? !mayBeBlocked : isBlocked && !isCancelled)
        throw new Violation("a job starts after its dependencies", `job ${id} is ${status}`)
    }
  }

  #hasEverFailed(id: string): boolean {
    return this.#sameAs(id).some((other) => this.#everFailed.has(other))
  }

  #isExpiryDue(id: string): boolean {
    return this.#simulation.clock.latest >= this.#expiryOf(this.#jobs.get(id)!)
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
