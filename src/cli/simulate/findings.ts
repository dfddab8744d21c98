// Finds what went wrong in simulated runs that a change of the workflow would avoid.

import { formatDuration } from "../../core/values/quantities.ts"
import { isRunClosed, isTaskFinished } from "../../core/model/status.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import { retryDelayMs } from "../../core/rules/changes/decide.ts"
import type { TaskState } from "../../sdk/test.ts"
import { MAX_SLOWNESS } from "./fault-plan.ts"
import type { AttemptRecord } from "./attempt-simulator.ts"
import { isRepeatable } from "./repeatable.ts"
import type { SimulatedRun } from "./simulation.ts"

export const FINDING_KINDS = [
  "no_retries",
  "short_retries",
  "short_timeout",
  "short_run_timeout",
  "endless",
  "hook_lost",
  "lost_worker",
  "runs_twice",
  "bad_reference",
  "hook_never_fires",
  "never_runs",
] as const
export type FindingKind = (typeof FINDING_KINDS)[number]

export interface Finding {
  kind: FindingKind
  /** null: the workflow. */
  task: string | null
  message: string
  /** The change that the user should make. */
  advice: string
  /** The run failed or never ended, or a hook that was due did not succeed. */
  losesWork: boolean
}

/** Returns what went wrong in one run, each kind once for a task. */
export const findingsOf = (workflow: CompiledWorkflow, run: SimulatedRun): Finding[] => {
  if (!isRunClosed(run.status)) return endless(run)
  const all = [
    ...(isRunTimeout(run) ? [shortRunTimeout(workflow)] : []),
    ...failures(workflow, run),
    ...shortTimeouts(workflow, run),
    ...repetitions(workflow, run),
  ]
  return [...new Map(all.map((finding) => [`${finding.kind} ${finding.task}`, finding])).values()]
}

const isRunTimeout = ({ status, error }: SimulatedRun): boolean =>
  status === "failed" && error?.startsWith("timed out") === true

const nodeOf = ({ nodes }: CompiledWorkflow, task: string): Node => nodes.find(({ name }) => name === task)!

const endless = ({ tasks, attempts }: SimulatedRun): Finding[] => {
  const open = attempts.filter(({ end }) => end === null).map(({ task }) => task)
  const waiting = open.length > 0 ? open : tasks.filter(({ status }) => !isTaskFinished(status)).map(({ name }) => name)
  return [...new Set(waiting)].map((task) => ({
    kind: "endless",
    task,
    message: "waited in vain, and the run did not end within 30 days",
    advice: "timeout: 2d",
    losesWork: true,
  }))
}

const shortRunTimeout = ({ timeoutMs = 0 }: CompiledWorkflow): Finding => ({
  kind: "short_run_timeout",
  task: null,
  message: `the run's timeout of ${formatDuration(timeoutMs)} passed while each task was within its own timeout and retries`,
  advice: "a longer timeout of the workflow, or shorter ones of its tasks",
  losesWork: true,
})

/** Returns a finding for each task and hook that failed for good. */
const failures = (workflow: CompiledWorkflow, run: SimulatedRun): Finding[] =>
  run.tasks.flatMap((row) => {
    const node = nodeOf(workflow, row.name)
    if (row.status !== "failed" || node.continueOnError === true) return []
    if (isRunTimeout(run) && node.hook === null) return []
    const last = lastAttempt(run, row)
    if (last === undefined) return hasFailedInside(run, row) ? [] : [badReference(row)]
    return failure(node, last)
  })

const lastAttempt = ({ attempts }: SimulatedRun, { name, kind, path }: TaskState): AttemptRecord | undefined =>
  kind === "task" ? attempts.findLast(({ task, path: at }) => task === name && at === path) : undefined

const hasFailedInside = ({ tasks }: SimulatedRun, { name, kind }: TaskState): boolean =>
  kind !== "task" &&
  tasks.some((row) => row.status === "failed" && row.kind === "task" && (row.name === name || row.name.startsWith(`${name}.`)))

const badReference = ({ name, error }: TaskState): Finding => ({
  kind: "bad_reference",
  task: name,
  message: `failed without running, after another task had failed: ${error ?? ""}`,
  advice: "an expression that also holds for the output of a failed task, which is null",
  losesWork: false,
})

const failure = (node: Node, last: AttemptRecord): Finding[] => {
  const { name: task, retry } = node
  switch (last.end) {
    case "failed":
      // The simulation has no exit codes.
      if (node.retryOn?.every((pattern) => typeof pattern === "number") === true) return []
      if (retry.maxAttempts === 1) return [noRetries(node)]
      return [
        {
          kind: "short_retries",
          task,
          message: `an outage outlasted its ${retry.maxAttempts} attempts, which wait ${formatDuration(waitsMs(node))} in all`,
          advice: "retry: { max_attempts: 6, base_delay: 10s }",
          losesWork: false,
        },
      ]
    case "lost":
    case "killed":
      return [
        {
          kind: "lost_worker",
          task,
          message: `a lost worker failed the run, as lost_retries: ${node.lostRetries} asks for`,
          advice: "lost_retries: 3, if the task is safe to repeat",
          losesWork: false,
        },
      ]
    default:
      return []
  }
}

const noRetries = ({ name: task, hook }: Node): Finding =>
  hook === null
    ? {
        kind: "no_retries",
        task,
        message: "one failed attempt failed the run: the task has no retries",
        advice: "retries: 3",
        losesWork: true,
      }
    : {
        kind: "hook_lost",
        task,
        message: "the hook was due, and one failed attempt ended it: it has no retries",
        advice: "retries: 3",
        losesWork: true,
      }

/** Returns the time between all attempts together. */
const waitsMs = ({ retry }: Node): number =>
  Array.from({ length: retry.maxAttempts - 1 }, (_, i) => retryDelayMs(retry, i + 1, 1)).reduce((sum, ms) => sum + ms, 0)

/** Returns a finding for each task whose timeout stopped an attempt that was only slow. */
const shortTimeouts = (workflow: CompiledWorkflow, run: SimulatedRun): Finding[] => {
  const slow = new Set(run.faults.flatMap((fault) => (fault.kind === "slowness" ? [fault.key] : [])))
  if (isRunTimeout(run)) return []
  return run.attempts
    .filter(({ key, end }) => end === "timeout" && slow.has(key))
    .map(({ task, path }) => {
      const { timeoutMs, continueOnError } = nodeOf(workflow, task)
      const row = run.tasks.find((each) => each.name === task && each.path === path)
      return {
        kind: "short_timeout",
        task,
        message: `its timeout of ${formatDuration(timeoutMs ?? 0)} stopped an attempt that took up to ${MAX_SLOWNESS} times as long as usual`,
        advice: `a timeout above ${MAX_SLOWNESS} times the usual time, and retries`,
        losesWork: row?.status === "failed" && continueOnError !== true,
      }
    })
}

/** Returns a finding for each task that did its work twice and does not show that it may. */
const repetitions = (workflow: CompiledWorkflow, { attempts }: SimulatedRun): Finding[] => {
  const done = new Set<string>()
  const twice = new Set<string>()
  for (const { key, task, workDone } of attempts) {
    if (workDone && done.has(key)) twice.add(task)
    if (workDone) done.add(key)
  }
  return [...twice]
    .map((task) => nodeOf(workflow, task))
    .filter((node) => !isRepeatable(node))
    .map((node) => ({
      kind: "runs_twice",
      task: node.name,
      message: "did its work twice: its worker was lost after the work and before the result was recorded",
      advice: node.executor === "http" ? KEY_OF_REQUEST : KEY_OF_TASK,
      losesWork: false,
    }))
}

const KEY_OF_REQUEST = 'headers: { Idempotency-Key: "${{ run.id }}" }'
const KEY_OF_TASK =
  "give what it calls the key $ORK_TASK_ID, which is the same in every attempt; or lost_retries: 0, and the run fails instead"
