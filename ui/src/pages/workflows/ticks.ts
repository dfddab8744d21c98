// The last runs of a workflow as a row of ticks: newest at the right, height by duration, and the success rate.

import type { RunStatus, WorkflowSummary } from "../../api/types.ts"
import { lookOf, type Tone } from "../../components/status.ts"
import { durationText, relativeTime } from "../../format/time.ts"
import { runDuration } from "../../run/duration.ts"

export const TICKS = 20
/** Smallest height as a fraction, so that a run without duration is visible. */
const LEAST = 0.18

type LastRun = WorkflowSummary["last_runs"][number]

export interface Tick {
  id: string
  status: RunStatus
  tone: Tone
  /** 0 to 1. */
  height: number
  label: string
}

const lengthOf = (run: LastRun, now: number): number => runDuration(run, now) ?? 0

/**
 * Returns the ticks of runs. `runs` are newest first, as the API returns them. The square root keeps short runs distinguishable next to
 * a long one.
 */
export const ticksOf = (runs: readonly LastRun[], now: number): Tick[] => {
  const shown = runs.slice(0, TICKS)
  const longest = Math.max(1, ...shown.map((run) => lengthOf(run, now)))
  return shown
    .map((run): Tick => {
      const length = lengthOf(run, now)
      const { tone, text } = lookOf(run.status)
      const lasted = run.started_at === null ? "" : `, ${durationText(length)}`
      return {
        id: run.id,
        status: run.status,
        tone,
        height: LEAST + (1 - LEAST) * Math.sqrt(length / longest),
        label: `${text}${lasted}, ${relativeTime(Date.parse(run.created_at), now)}`,
      }
    })
    .toReversed()
}

export interface Rate {
  success: number
  ended: number
}

/** Success rate without cancelled runs, which say nothing about the workflow. */
export const successRate = (runs: readonly Pick<LastRun, "status">[]): Rate => {
  const success = runs.filter((run) => run.status === "success").length
  return { success, ended: success + runs.filter((run) => run.status === "failed").length }
}

export const ticksSummary = (runs: readonly Pick<LastRun, "status">[]): string => {
  const counts = Map.groupBy(runs, (run) => run.status)
  const parts = [...counts].map(([status, each]) => `${each.length} ${lookOf(status).text}`)
  return parts.length === 0 ? "No runs yet" : `Last ${runs.length} runs: ${parts.join(", ")}`
}
