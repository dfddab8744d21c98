// Rules of the job queue (`/api/v1/jobs`) that Ork calls: cycles, readiness, retries, final statuses. Workflows use them too: the engine
// retries tasks by `backoffDelay` and `shouldRetry`, and the compiler finds cycles by `detectCycle`. Names follow the API's JSON, so
// that a job of the API can be passed unchanged. published.ts has the rules that the stores implement in SQL.

import type { RetryPolicy } from "../../model/workflow.ts"

/** The event log stores indexes in this list: it is append-only. */
export const JOB_STATUSES = ["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "BLOCKED"] as const
export type JobStatus = (typeof JOB_STATUSES)[number]

export const BACKOFF_STRATEGIES = ["FIXED", "LINEAR", "EXPONENTIAL"] as const
export type BackoffStrategy = (typeof BACKOFF_STRATEGIES)[number]

/** The back-off of tasks that each strategy is. */
export const BACKOFF = {
  FIXED: "fixed",
  LINEAR: "linear",
  EXPONENTIAL: "exponential",
} as const satisfies Record<BackoffStrategy, RetryPolicy["backoff"]>

export interface JobRetryPolicy {
  max_attempts: number
  backoff_strategy: BackoffStrategy
  base_delay_seconds: number
  max_delay_seconds: number
}

/** Fields that determine readiness and cascades. */
export interface JobWithStatus {
  id: string
  status: JobStatus
  dependencies: readonly string[]
}

export const JOB_BOUNDS = {
  name: { min: 1, max: 255 },
  priority: { min: 1, max: 10 },
  payload_bytes: 65_536,
  dependencies: 50,
  max_attempts: { min: 1, max: 10 },
  base_delay_seconds: { min: 1, max: 300 },
  max_delay_seconds: { max: 3600 },
} as const

export const DEFAULT_JOB_RETRY: JobRetryPolicy = {
  max_attempts: 3,
  backoff_strategy: "EXPONENTIAL",
  base_delay_seconds: 10,
  max_delay_seconds: 300,
}

// -- cycles --------------------------------------------------------------------------------------------------------------------

export interface CycleDetectionResult {
  has_cycle: boolean
  /** Jobs of the cycle in dependency order, each once; empty without a cycle. */
  cycle_path: string[]
}

/**
 * Searches depth first from the new job along its dependencies, without recursion: a chain of 100,000 jobs must not overflow the
 * stack. A dependency that is not in `existing` is an external reference without dependencies.
 */
export const detectCycle = (
  newJobId: string,
  dependencies: readonly string[],
  existing: ReadonlyMap<string, readonly string[]>,
): CycleDetectionResult => {
  const edges = (id: string): readonly string[] => (id === newJobId ? dependencies : (existing.get(id) ?? []))
  const done = new Set<string>()
  const depth = new Map([[newJobId, 0]])
  const path = [{ id: newJobId, next: 0 }]
  while (path.length > 0) {
    const top = path[path.length - 1]!
    const dependency = edges(top.id)[top.next++]
    if (dependency === undefined) {
      done.add(top.id)
      depth.delete(top.id)
      path.pop()
      continue
    }
    const start = depth.get(dependency)
    if (start !== undefined) return { has_cycle: true, cycle_path: path.slice(start).map((step) => step.id) }
    if (done.has(dependency)) continue
    depth.set(dependency, path.length)
    path.push({ id: dependency, next: 0 })
  }
  return { has_cycle: false, cycle_path: [] }
}

// -- readiness -----------------------------------------------------------------------------------------------------------------

export type DependencyStatus = "SATISFIED" | "WAITING" | "BLOCKED"

const BLOCKING: ReadonlySet<JobStatus> = new Set(["FAILED", "BLOCKED"])

/** Returns the state of a job's dependencies. A dependency without a known status (an external reference) keeps it waiting. */
export const dependencyStatus = (
  job: Pick<JobWithStatus, "dependencies">,
  statuses: ReadonlyMap<string, JobStatus>,
): DependencyStatus => {
  let waiting = false
  for (const id of job.dependencies) {
    const status = statuses.get(id)
    if (status !== undefined && BLOCKING.has(status)) return "BLOCKED"
    if (status !== "COMPLETED") waiting = true
  }
  return waiting ? "WAITING" : "SATISFIED"
}

// -- retries -------------------------------------------------------------------------------------------------------------------

/** Returns the delay in seconds. `attemptNumber` (from 1) is the attempt that failed. FIXED ignores the maximum. */
export const retryDelay = (policy: Omit<JobRetryPolicy, "max_attempts">, attemptNumber: number): number => {
  const { backoff_strategy, base_delay_seconds, max_delay_seconds } = policy
  const inMs = { baseDelayMs: base_delay_seconds * 1000, maxDelayMs: max_delay_seconds * 1000 }
  return backoffDelay({ backoff: BACKOFF[backoff_strategy], ...inMs }, attemptNumber) / 1000
}

/** Returns the delay in milliseconds, without jitter. */
export const backoffDelay = (
  { backoff, baseDelayMs, maxDelayMs }: Pick<RetryPolicy, "backoff" | "baseDelayMs" | "maxDelayMs">,
  attemptNumber: number,
): number => {
  switch (backoff) {
    case "fixed":
      return baseDelayMs
    case "linear":
      return Math.min(baseDelayMs * attemptNumber, maxDelayMs)
    case "exponential":
      return Math.min(baseDelayMs * 2 ** (attemptNumber - 1), maxDelayMs)
    default:
      return backoff satisfies never
  }
}

export const shouldRetry = (job: { attempt_count: number; retry_policy: Pick<JobRetryPolicy, "max_attempts"> }): boolean =>
  job.attempt_count < job.retry_policy.max_attempts

// -- states --------------------------------------------------------------------------------------------------------------------

/**
 * Changes of status by the work itself, as the SDK publishes them. A user also cancels unfinished jobs and retries failed ones, and a READY
 * job expires: those go to FAILED, and from FAILED to READY or PENDING.
 */
export const JOB_TRANSITIONS = [
  { from: "PENDING", to: "READY", trigger: "All dependencies completed" },
  { from: "PENDING", to: "BLOCKED", trigger: "Any dependency failed/blocked" },
  { from: "READY", to: "RUNNING", trigger: "Scheduler picks job" },
  { from: "RUNNING", to: "COMPLETED", trigger: "Execution succeeds" },
  { from: "RUNNING", to: "READY", trigger: "Execution fails, retry allowed (increment attempt_count)" },
  { from: "RUNNING", to: "FAILED", trigger: "Execution fails, no retries left" },
] as const satisfies readonly { from: JobStatus; to: JobStatus; trigger: string }[]

/** Returns true for COMPLETED, FAILED and BLOCKED. */
export const isJobFinished = (status: JobStatus): boolean => !JOB_TRANSITIONS.some((row) => row.from === status)
