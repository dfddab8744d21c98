// The rules of the job queue (`/api/v1/jobs`): cycles, readiness, order, retries, transitions, cascades. Pure functions, the
// only copy of each rule: the engine retries tasks by `retryDelay` and `shouldRetry`, the compiler finds cycles in a workflow
// by `detectCycle`. Names follow the API's JSON, so that a job can be passed as it stands.

export const JOB_STATUSES = ["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "BLOCKED"] as const
export type JobStatus = (typeof JOB_STATUSES)[number]

export const BACKOFF_STRATEGIES = ["FIXED", "LINEAR", "EXPONENTIAL"] as const
export type BackoffStrategy = (typeof BACKOFF_STRATEGIES)[number]

export interface JobRetryPolicy {
  max_attempts: number
  backoff_strategy: BackoffStrategy
  base_delay_seconds: number
  max_delay_seconds: number
}

/** What the ordering looks at. `created_at` is an ISO instant. */
export interface OrderedJob {
  id: string
  priority: number
  created_at: string
}

/** What dependencies and cascades look at. */
export interface LinkedJob {
  id: string
  status: JobStatus
  dependencies: readonly string[]
}

export const JOB_LIMITS = {
  name: { min: 1, max: 255 },
  queue: /^[a-zA-Z0-9_]{1,64}$/,
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
  /** The jobs of the cycle in the order of their dependencies, each once; empty without a cycle. */
  cycle_path: string[]
}

/**
 * Depth first from the new job over job → dependencies, with a stack of its own: a chain of 100,000 jobs must not overflow.
 * A dependency that is not in `existing` is an external reference: a leaf.
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

/** A dependency whose status is not known (an external reference) is waited for. */
export const dependencyStatus = (
  job: Pick<LinkedJob, "dependencies">,
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

// -- order ---------------------------------------------------------------------------------------------------------------------

/** Higher priority, then earlier creation, then the lesser id. */
export const compareJobs = (a: OrderedJob, b: OrderedJob): number => {
  if (a.priority !== b.priority) return b.priority - a.priority
  const created = Date.parse(a.created_at) - Date.parse(b.created_at)
  if (created !== 0) return created
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

export const orderJobs = <T extends OrderedJob>(jobs: readonly T[]): T[] => jobs.toSorted(compareJobs)

export const selectNextJobs = <T extends OrderedJob>(ready: readonly T[], runningCount: number, maxConcurrent: number): T[] => {
  const slots = maxConcurrent - runningCount
  return slots <= 0 ? [] : orderJobs(ready).slice(0, slots)
}

// -- retries -------------------------------------------------------------------------------------------------------------------

/** In the unit of the policy's delays. `attemptNumber` is the attempt that just failed, from 1. FIXED knows no cap. */
export const retryDelay = (policy: Omit<JobRetryPolicy, "max_attempts">, attemptNumber: number): number => {
  const { base_delay_seconds: base, max_delay_seconds: cap } = policy
  switch (policy.backoff_strategy) {
    case "FIXED":
      return base
    case "LINEAR":
      return Math.min(base * attemptNumber, cap)
    case "EXPONENTIAL":
      return Math.min(base * 2 ** (attemptNumber - 1), cap)
    default:
      return policy.backoff_strategy satisfies never
  }
}

export const shouldRetry = (job: { attempt_count: number; retry_policy: Pick<JobRetryPolicy, "max_attempts"> }): boolean =>
  job.attempt_count < job.retry_policy.max_attempts

// -- states --------------------------------------------------------------------------------------------------------------------

export const JOB_TRANSITIONS = [
  { from: "PENDING", to: "READY", trigger: "All dependencies completed" },
  { from: "PENDING", to: "BLOCKED", trigger: "Any dependency failed/blocked" },
  { from: "READY", to: "RUNNING", trigger: "Scheduler picks job" },
  { from: "RUNNING", to: "COMPLETED", trigger: "Execution succeeds" },
  { from: "RUNNING", to: "READY", trigger: "Execution fails, retry allowed (increment attempt_count)" },
  { from: "RUNNING", to: "FAILED", trigger: "Execution fails, no retries left" },
] as const satisfies readonly { from: JobStatus; to: JobStatus; trigger: string }[]

export const canTransition = (from: JobStatus, to: JobStatus): boolean =>
  JOB_TRANSITIONS.some((row) => row.from === from && row.to === to)

/** No way out of COMPLETED, FAILED and BLOCKED. */
export const isTerminalJob = (status: JobStatus): boolean => !JOB_TRANSITIONS.some((row) => row.from === status)

// -- cascades ------------------------------------------------------------------------------------------------------------------

const dependentsOf = <T extends LinkedJob>(jobs: readonly T[]): Map<string, T[]> => {
  const dependents = new Map<string, T[]>()
  for (const job of jobs) {
    for (const id of new Set(job.dependencies)) {
      const list = dependents.get(id)
      if (list === undefined) dependents.set(id, [job])
      else list.push(job)
    }
  }
  return dependents
}

/** The ids to mark BLOCKED: pending dependents, theirs, and so on. A dependent in another state stops the cascade there. */
export const propagateFailure = (failedJobId: string, jobs: readonly LinkedJob[]): Set<string> => {
  const dependents = dependentsOf(jobs)
  const blocked = new Set<string>()
  const frontier = [failedJobId]
  while (frontier.length > 0) {
    for (const job of dependents.get(frontier.pop()!) ?? []) {
      if (job.status !== "PENDING" || blocked.has(job.id)) continue
      blocked.add(job.id)
      frontier.push(job.id)
    }
  }
  return blocked
}

/** The ids to move from PENDING to READY now that this job is completed, whatever its row in `jobs` still says. */
export const propagateCompletion = (completedJobId: string, jobs: readonly LinkedJob[]): Set<string> => {
  const statuses = new Map(jobs.map((job) => [job.id, job.status]))
  statuses.set(completedJobId, "COMPLETED")
  const ready = jobs.filter(
    (job) =>
      job.status === "PENDING" && job.dependencies.includes(completedJobId) && dependencyStatus(job, statuses) === "SATISFIED",
  )
  return new Set(ready.map((job) => job.id))
}
