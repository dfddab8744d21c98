// The view model of a durable function's steps: what each one is, what it waits for, and its place in time. Pure.

import type { Step } from "../api/types.ts"
import type { AnyStatus } from "../components/status.ts"
import { absoluteTime, durationText, plural } from "../format/time.ts"

export interface StepLine {
  key: string
  step: Step
  /** The name; further steps of one name have a number. */
  title: string
  what: string
  status: AnyStatus
  attempts: string | null
  duration: string
  /** Event or time that a waiting step waits for. */
  waitsFor: string | null
  /** Start and length, as parts of the time of the function. */
  place: number
  length: number
}

export interface FunctionTimes {
  startedAt: number
  finishedAt: number | null
  now: number
}

const WHAT = {
  run: "code",
  sleep: "sleep",
  wait: "signal",
  call: "call",
  tx: "transaction",
  approval: "approval",
  value: "recorded value",
  patch: "patch",
} as const satisfies Record<Step["kind"], string>

const HAS_ATTEMPTS: readonly Step["kind"][] = ["run", "tx"]

const stepKey = ({ name, occurrence }: Pick<Step, "name" | "occurrence">): string => `${occurrence}/${name}`

export const linesOf = (steps: readonly Step[], times: FunctionTimes): StepLine[] => {
  const end = times.finishedAt ?? times.now
  const length = Math.max(end - times.startedAt, 1)
  return steps.map((step): StepLine => {
    const from = Date.parse(step.started_at)
    const to = Math.max(from, step.finished_at === null ? end : Date.parse(step.finished_at))
    return {
      key: stepKey(step),
      step,
      title: step.occurrence === 0 ? step.name : `${step.name} (number ${step.occurrence + 1})`,
      what: WHAT[step.kind],
      status: statusOf(step, times.finishedAt !== null),
      attempts: attemptsOf(step),
      duration: durationText(to - from),
      waitsFor: step.state === "waiting" && times.finishedAt === null ? waitsFor(step) : null,
      place: Math.min(1, Math.max(0, (from - times.startedAt) / length)),
      length: Math.min(1, (to - from) / length),
    }
  })
}

/** Returns the status of a step. One that waited when its function ended, ended with it. */
const statusOf = ({ state }: Step, ended: boolean): AnyStatus => {
  if (state !== "waiting") return state
  return ended ? "cancelled" : "waiting"
}

const attemptsOf = ({ kind, state, failures }: Step): string | null =>
  HAS_ATTEMPTS.includes(kind) ? plural(failures + (state === "success" ? 1 : 0), "attempt") : null

const waitsFor = ({ kind, name, until, failures, child_kind: child }: Step): string => {
  const time = until === null ? null : absoluteTime(Date.parse(until))
  switch (kind) {
    case "sleep":
      return time === null ? "sleeps" : `sleeps until ${time}`
    case "wait":
      return `waits for the signal ${name}${time === null ? "" : `, until ${time} at most`}`
    case "approval":
      return `waits for approval${time === null ? "" : `, until ${time} at most`}`
    case "call":
      return child === "run"
        ? "waits for the end of the run that it has started"
        : "waits for the end of the job that it has started"
    default:
      return time === null ? "waits" : `waits for attempt ${failures + 1} at ${time}`
  }
}
