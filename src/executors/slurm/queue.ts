// Slurm's queue as its commands tell it: `squeue --json`, whose shapes differ between versions, or `scontrol show job -o`.

export interface QueuedJob {
  /** As `scancel` takes it: `12`, or `12_3` for one task of an array. */
  id: string
  name: string
  /** Of its array; null: none. Tasks of an array that wait are told as one job, `tasks` are their numbers. */
  task: number | null
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

/** Numbers came as they are, later as `{ set, infinite, number }`; states as a text, later as a list. */
type Told = number | null | { set?: boolean; number?: number }
type ToldExit = number | { return_code?: Told; signal?: { id?: Told; signal_id?: Told } }

interface ToldJob {
  job_id: number
  array_job_id?: Told
  array_task_id?: Told
  array_task_string?: string | null
  name?: string | null
  job_state?: string | string[] | null
  state_reason?: string | null
  exit_code?: ToldExit
}

const numberOf = (told: Told | undefined): number | null => {
  if (told === undefined || told === null) return null
  if (typeof told === "number") return told
  return told.set === true ? (told.number ?? null) : null
}

/** In the older form it is what `wait` gives. */
const exitOf = (told: ToldExit | undefined): { exitCode: number; signal: number } => {
  if (told === undefined) return { exitCode: 0, signal: 0 }
  if (typeof told === "number") return { exitCode: (told >> 8) & 0xff, signal: told & 0x7f }
  return {
    exitCode: numberOf(told.return_code) ?? 0,
    signal: numberOf(told.signal?.id) ?? numberOf(told.signal?.signal_id) ?? 0,
  }
}

export const parseSqueue = (text: string): QueuedJob[] => {
  const { jobs } = JSON.parse(text) as { jobs?: ToldJob[] }
  return (jobs ?? []).map((job) => {
    const state = Array.isArray(job.job_state) ? (job.job_state[0] ?? "") : (job.job_state ?? "")
    const place = placeOf(
      String(job.job_id),
      String(numberOf(job.array_job_id) || ""),
      numberOf(job.array_task_id),
      job.array_task_string,
    )
    return { ...place, name: job.name ?? "", state, reason: job.state_reason ?? "", ...exitOf(job.exit_code) }
  })
}

export const parseScontrol = (text: string): QueuedJob[] =>
  text.split("\n").flatMap((line) => {
    // A name or comment may hold blanks, so a field ends where the next known one begins.
    const field = (name: string): string => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(line)?.[1] ?? ""
    if (field("JobId") === "") return []
    const task = field("ArrayTaskId")
    const single = /^\d+$/.test(task) ? Number(task) : null
    const [exitCode = 0, signal = 0] = field("ExitCode").split(":").map(Number)
    const place = placeOf(field("JobId"), field("ArrayJobId"), single, single === null ? task : null)
    const told = { name: field("JobName"), state: field("JobState"), reason: field("Reason"), exitCode, signal }
    return [{ ...place, ...told }]
  })

const placeOf = (
  jobId: string,
  arrayId: string,
  task: number | null,
  waiting: string | null | undefined,
): Pick<QueuedJob, "id" | "task" | "tasks"> => {
  if (task !== null && arrayId !== "") return { id: `${arrayId}_${task}`, task, tasks: null }
  if (arrayId !== "" && waiting) return { id: arrayId, task: null, tasks: expand(waiting) }
  return { id: jobId, task: null, tasks: null }
}

/** `0-3,7,8-12:2%5` */
const expand = (ranges: string): number[] =>
  ranges
    .split("%")[0]!
    .split(",")
    .flatMap((range) => {
      const match = /^\[?(\d+)(?:-(\d+)(?::(\d+))?)?\]?$/.exec(range)
      if (match === null) return []
      const [from, to, step] = [Number(match[1]), Number(match[2] ?? match[1]), Number(match[3] ?? 1)]
      return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step)
    })
