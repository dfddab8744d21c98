// Parses Slurm's queue from `squeue --json`, whose format differs between versions, or from `scontrol show job -o`.

export interface QueuedJob {
  /** Id as `scancel` accepts it: `12`, or `12_3` for one task of an array. */
  id: string
  name: string
  /** Number in its array; null when it is not one task of an array. */
  task: number | null
  /** Numbers of waiting tasks of an array, which the queue lists as one job; null for any other job. */
  tasks: number[] | null
  state: string
  reason: string
  exitCode: number
  signal: number
}

const WAITING = new Set(["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"])
const LIVE = new Set(["RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "COMPLETING", "RESIZING"])

export const isWaiting = ({ state }: QueuedJob): boolean => WAITING.has(state)
export const isLive = ({ state }: QueuedJob): boolean => LIVE.has(state)
export const isOver = (job: QueuedJob): boolean => !isWaiting(job) && !isLive(job)

/** Plain numbers in older versions, `{ set, infinite, number }` in newer ones. */
type RawNumber = number | null | { set?: boolean; number?: number }
/** The status of `wait` in older versions. */
type RawExit = number | { return_code?: RawNumber; signal?: { id?: RawNumber; signal_id?: RawNumber } }

interface RawJob {
  job_id: number
  array_job_id?: RawNumber
  array_task_id?: RawNumber
  array_task_string?: string | null
  name?: string | null
  job_state?: string | string[] | null
  state_reason?: string | null
  exit_code?: RawExit
}

const numberOf = (raw: RawNumber | undefined): number | null => {
  if (raw === undefined || raw === null) return null
  if (typeof raw === "number") return raw
  return raw.set === true ? (raw.number ?? null) : null
}

const exitOf = (raw: RawExit | undefined): { exitCode: number; signal: number } => {
  if (raw === undefined) return { exitCode: 0, signal: 0 }
  if (typeof raw === "number") return { exitCode: (raw >> 8) & 0xff, signal: raw & 0x7f }
  return {
    exitCode: numberOf(raw.return_code) ?? 0,
    signal: numberOf(raw.signal?.id) ?? numberOf(raw.signal?.signal_id) ?? 0,
  }
}

/** The queue cannot be read, which says nothing about its jobs. */
export class QueueUnavailable extends Error {}

export const parseSqueue = (text: string): QueuedJob[] => {
  // squeue reports that it could not reach the controller in its output, and exits with 0.
  const { jobs, errors = [] } = JSON.parse(text) as { jobs?: RawJob[]; errors?: { error?: string; description?: string }[] }
  if (errors.length > 0) {
    const messages = errors.map(({ error, description }) => error || description || "unknown error")
    throw new QueueUnavailable(`the queue cannot be read: ${messages.join("; ")}`)
  }
  return (jobs ?? []).map((job) => {
    const state = Array.isArray(job.job_state) ? (job.job_state[0] ?? "") : (job.job_state ?? "")
    const identity = identityOf(
      String(job.job_id),
      String(numberOf(job.array_job_id) || ""),
      numberOf(job.array_task_id),
      job.array_task_string,
    )
    return { ...identity, name: job.name ?? "", state, reason: job.state_reason ?? "", ...exitOf(job.exit_code) }
  })
}

export const parseScontrol = (text: string): QueuedJob[] =>
  text.split("\n").flatMap((line) => {
    // Fields are found by name, because a job's name or comment may contain blanks.
    const field = (name: string): string => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(line)?.[1] ?? ""
    if (field("JobId") === "") return []
    const task = field("ArrayTaskId")
    const single = /^\d+$/.test(task) ? Number(task) : null
    const [exitCode = 0, signal = 0] = field("ExitCode").split(":").map(Number)
    const identity = identityOf(field("JobId"), field("ArrayJobId"), single, single === null ? task : null)
    const state = { state: field("JobState"), reason: field("Reason"), exitCode, signal }
    return [{ ...identity, name: field("JobName"), ...state }]
  })

/** Returns the identity of a job. `waiting`: the numbers of an array's waiting tasks, as ranges. */
const identityOf = (
  jobId: string,
  arrayId: string,
  task: number | null,
  waiting: string | null | undefined,
): Pick<QueuedJob, "id" | "task" | "tasks"> => {
  if (task !== null && arrayId !== "") return { id: `${arrayId}_${task}`, task, tasks: null }
  if (arrayId !== "" && waiting) return { id: arrayId, task: null, tasks: expandRanges(waiting) }
  return { id: jobId, task: null, tasks: null }
}

/** Expands ranges such as `0-3,7,8-12:2%5`, where `:2` is the step and `%5` a limit of concurrent tasks. */
const expandRanges = (ranges: string): number[] =>
  ranges
    .split("%")[0]!
    .split(",")
    .flatMap((range) => {
      const match = /^\[?(\d+)(?:-(\d+)(?::(\d+))?)?\]?$/.exec(range)
      if (match === null) return []
      const [from, to, step] = [Number(match[1]), Number(match[2] ?? match[1]), Number(match[3] ?? 1)]
      return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step)
    })
