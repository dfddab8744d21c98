// The view model of the timeline, for one version of a run's state. Pure.

import { durationText, absoluteTime, plural } from "../format/time.ts"
import { lookOf } from "../components/status.ts"
import { endedOf, type Instance, type RunNode, type RunState, totalOf } from "../run/state.ts"
import { statusOf } from "../run/status.ts"
import type { TaskStatus } from "../api/types.ts"
import type { Range } from "./axis.ts"
import { breaksOf, withoutBreaks } from "./breaks.ts"
import { criticalInstances, instanceKey } from "./critical-path.ts"
import type { Row } from "./rows.ts"
import { Scopes } from "./scopes.ts"
import { type Segment, segmentsOf, unionOf } from "./segments.ts"

export interface TimelineModel {
  state: RunState
  scopes: Scopes
  path: Instance[]
  /** Keys of the instances on the critical path. */
  critical: ReadonlySet<string>
  /** Times before retries of the run in which it had ended. */
  breaks: Range[]
}

export interface RunTimes {
  startedAt: number | null
  idleMs: number
  now: number
}

export const timelineModel = (state: RunState, { startedAt, idleMs, now }: RunTimes): TimelineModel => {
  const scopes = new Scopes(state, startedAt)
  const path = criticalInstances(state, scopes)
  return { state, scopes, path, critical: new Set(path.map(instanceKey)), breaks: breaksOf(state, idleMs, now) }
}

/** Largest number of bars of unsuccessful attempts over the line of a fan-out. */
const MAX_BARS = 100

export interface Drawing {
  status: TaskStatus
  segments: Segment[]
  critical: boolean
}

/** Returns the bars of a row. A task with many instances has one line for all of them. */
export const drawingOf = (model: TimelineModel, { node, instance, fold }: Row, now: number): Drawing => {
  if (instance !== null) {
    const critical = model.critical.has(instanceKey(instance))
    const segments = withoutBreaks(segmentsOf(instance, model.scopes.readyAt(instance), now), model.breaks)
    return { status: instance.status, segments: segments.map((segment) => ({ ...segment, critical })), critical }
  }
  const below = [...instancesBelow(model.state, node)]
  const segments = unionOf(below, now).map((span): Segment => ({
    ...span,
    kind: "run",
    status: span.open ? "running" : "success",
    attempt: 0,
  }))
  const critical = fold === "open" ? [] : below.filter((each) => model.critical.has(instanceKey(each)))
  segments.push(
    ...unsuccessfulBars(below, now),
    ...critical.flatMap((each) =>
      segmentsOf(each, null, now)
        .slice(-1)
        .map((segment) => ({ ...segment, critical: true })),
    ),
  )
  return { status: statusOf(model.state, node), segments, critical: critical.length > 0 }
}

const unsuccessfulBars = (instances: readonly Instance[], now: number): Segment[] => {
  const bars: Segment[] = []
  for (const instance of instances) {
    if (instance.past.length === 0 && (instance.status === "success" || instance.finishedAt === null)) continue
    const segments = segmentsOf(instance, null, now)
    bars.push(...segments.filter(({ kind, status, open }) => kind === "run" && !open && status !== "success"))
    if (bars.length >= MAX_BARS) break
  }
  return bars.slice(0, MAX_BARS)
}

export function* instancesBelow(state: RunState, node: RunNode): Generator<Instance> {
  yield* node.instances.values()
  for (const index of node.members) yield* instancesBelow(state, state.nodes[index]!)
}

const sum = (segments: readonly Segment[], kind: Segment["kind"]): number =>
  segments.filter((each) => each.kind === kind).reduce((total, { from, to }) => total + to - from, 0)

/** Describes a row as text, for screen readers and next to its bars. */
export const wordsOf = ({ node, instance }: Row, { status, segments, critical }: Drawing): string => {
  const runs = segments.filter(({ kind }) => kind === "run")
  const waited = sum(segments, "wait")
  const between = sum(segments, "retry")
  const whole = instance === null && totalOf(node.counts) > 0
  return [
    lookOf(status).text,
    whole ? `${endedOf(node.counts)} of ${plural(totalOf(node.counts), "instance")} ended` : null,
    waited > 0 ? `waited ${durationText(waited)}` : null,
    instance !== null && runs.length > 0 ? `ran ${durationText(sum(runs, "run"))}` : null,
    instance !== null && runs.length > 1 ? plural(runs.length, "attempt") : null,
    between > 0 ? `${durationText(between)} until retries` : null,
    runs.length > 0 ? `from ${absoluteTime(runs[0]!.from)}` : null,
    critical ? "on the critical path" : null,
  ]
    .filter((part) => part !== null)
    .join(", ")
}

/** Describes one bar as text. */
export const segmentWords = ({ kind, from, to, status, attempt }: Segment): string => {
  const length = durationText(to - from)
  if (kind === "wait") return `waited ${length} to begin`
  if (kind === "retry") return `waited ${length} for attempt ${attempt}`
  const which = attempt === 0 ? "" : `attempt ${attempt}: `
  return `${which}${lookOf(status).text}, ${length}, from ${absoluteTime(from)}`
}
