// Classifies a Job and its pod, as the cluster shows them, into the state of an attempt. Pure.

import type { Outcome } from "../remote/remote-attempt.ts"
import { LatestObject, type TrackedAttempt } from "./namespace-watch.ts"
import { type Condition, CONTAINER, hasCondition, type JobObject, type PodObject, type Terminated } from "./shapes.ts"
import { describeExitCode, describeMissingProgram, outOfMemory } from "../container-messages.ts"

export interface JobOutcome extends Outcome {
  /** The container's termination message: its output, or the reason of its failure. */
  message: string
  retryable?: false
  /** The container ended before anybody deleted the pod, so that no deletion can have caused the outcome. */
  certain?: true
}

export type JobState =
  /** Not started. `reason`: the cluster's reason; null when it gives none. */
  | { phase: "waiting"; reason: string | null }
  /** Cannot start: for now, or (`permanent`) for ever. */
  | { phase: "stuck"; error: string; permanent: boolean }
  | { phase: "running" }
  | { phase: "ended"; outcome: JobOutcome }
  /** Being removed by somebody else. `outcome` counts if the cluster reports nothing more. */
  | { phase: "terminating"; outcome: JobOutcome }

/** Reasons of pods that their node rejected or evicted. */
const NODE_REASONS =
  /^(?:Evicted|Preempt\w*|NodeLost|NodeShutdown|NodeAffinity|Shutdown|Terminated|OutOf\w+|UnexpectedAdmissionError|Unexpected\w*|HostPortConflict)$/
const IMAGE_PULL_REASONS = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "RegistryUnavailable",
  "ImageInspectError",
  "SignatureValidationFailed",
])
const BAD_IMAGE_REASONS = new Set(["InvalidImageName", "ErrImageNeverPull"])
const BAD_CONTAINER_REASONS = new Set(["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])

export const classify = (job: LatestObject<JobObject>, pod: LatestObject<PodObject>, memoryBytes: number): JobState => {
  const { object } = pod
  const success = successOf(pod)
  if (success !== null) return succeeded(success)
  const over = pod.gone || (object !== null && isOver(object))
  const removed = removal(job, displacement(object))
  if (removed !== null) return { phase: over || (job.gone && object === null) ? "ended" : "terminating", outcome: removed }
  const failed = failedCondition(job)
  if (object?.metadata.deletionTimestamp !== undefined || pod.gone) {
    const outcome = lost("its pod was deleted from outside of Ork")
    return { phase: over && failed !== undefined ? "ended" : "terminating", outcome }
  }
  if (over) return { phase: "ended", outcome: failure(object, memoryBytes) }
  if (containerOf(object)?.state?.running !== undefined) return { phase: "running" }
  if (object !== null) return waitingPod(object)
  if (failed !== undefined)
    return { phase: "terminating", outcome: lost(`its job failed: ${messageOr(failed, "its pod was not seen")}`) }
  const complete = anyCondition(job, "SuccessCriteriaMet", "Complete")
  if (complete !== undefined) return { phase: "terminating", outcome: lost("its pod is gone, and with it its log and output") }
  return { phase: "waiting", reason: "the cluster has created no pod for its job" }
}

/** Returns the end of a container that has done its work. One that exits with 0 because its pod is deleted has not. */
const successOf = ({ beforeDeletion }: LatestObject<PodObject>): Terminated | null => {
  const exited = containerOf(beforeDeletion)?.state?.terminated
  if (exited?.exitCode !== 0) return null
  return displacement(beforeDeletion) === null || beforeDeletion?.status?.phase === "Succeeded" ? exited : null
}

/**
 * Returns the pod of an attempt. Of several, which a cluster may create for a Job: one that succeeded, or else the newest that may
 * still do so, or else the newest.
 */
export const podOf = ({ job, pods }: TrackedAttempt): LatestObject<PodObject> => {
  const owned = pods.ownedBy(job.object)
  const isLive = ({ object, gone }: LatestObject<PodObject>): boolean =>
    !gone && object !== null && object.metadata.deletionTimestamp === undefined && !isOver(object)
  return owned.find((pod) => successOf(pod) !== null) ?? owned.findLast(isLive) ?? owned.at(-1) ?? new LatestObject<PodObject>()
}

export interface ContainerTimes {
  /** Milliseconds, in whole seconds of the node's clock; null: not known. */
  startedAt: number | null
  finishedAt: number | null
}

export const timesOf = ({ object }: LatestObject<PodObject>): ContainerTimes => {
  const { running, terminated } = containerOf(object)?.state ?? {}
  return { startedAt: instantOf(terminated?.startedAt ?? running?.startedAt), finishedAt: instantOf(terminated?.finishedAt) }
}

const instantOf = (text: string | null | undefined): number | null => Date.parse(text ?? "") || null

export const hasStarted = (state: JobState): boolean =>
  state.phase === "running" || (state.phase === "ended" && state.outcome.exitCode !== null)

/** Returns the outcome if nothing changes any more; null while the work waits or runs. */
export const outcomeOf = (state: JobState): JobOutcome | null => {
  switch (state.phase) {
    case "waiting":
    case "running":
      return null
    case "ended":
    case "terminating":
      return state.outcome
    case "stuck":
      return {
        state: "failed",
        error: state.error,
        exitCode: null,
        message: "",
        ...(state.permanent && { retryable: false as const }),
      }
    default:
      return state satisfies never
  }
}

/** Returns true when no container of the task runs any more. */
export const isOver = (pod: PodObject): boolean =>
  containerOf(pod)?.state?.terminated !== undefined || pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded"

/** Returns true when the Job creates no more pods. */
export const isSettled = ({ status, metadata }: JobObject): boolean =>
  metadata.deletionTimestamp !== undefined ||
  ["FailureTarget", "Failed", "SuccessCriteriaMet", "Complete"].some(
    (type) => hasCondition(status?.conditions, type) !== undefined,
  )

const lost = (error: string): JobOutcome => ({ state: "lost", error, exitCode: null, message: "" })

const deletedJob = (): JobOutcome => ({ ...lost("its job was deleted from outside of Ork"), state: "failed" })

const pastDeadline = (): JobOutcome => ({
  ...lost("stopped by the cluster at its deadline, because no server had stopped it before"),
  state: "timeout",
})

const succeeded = ({ message = "" }: Terminated): JobState => ({
  phase: "ended",
  outcome: { state: "success", error: null, exitCode: 0, message, certain: true },
})

const containerOf = (pod: PodObject | null) => pod?.status?.containerStatuses?.find(({ name }) => name === CONTAINER)

const anyCondition = ({ object }: LatestObject<JobObject>, ...types: string[]): Condition | undefined =>
  types.map((type) => hasCondition(object?.status?.conditions, type)).find((condition) => condition !== undefined)

const failedCondition = (job: LatestObject<JobObject>): Condition | undefined => anyCondition(job, "FailureTarget", "Failed")

const messageOr = ({ reason = "", message = "" }: { reason?: string; message?: string }, otherwise: string): string =>
  message || reason || otherwise

/** Returns the outcome of a pod that its node, or a controller of nodes, removes; null for any other. */
const displacement = (pod: PodObject | null): JobOutcome | null => {
  const { phase, reason = "", message = "", conditions } = pod?.status ?? {}
  const disrupted = hasCondition(conditions, "DisruptionTarget")
  if (disrupted !== undefined) return lost(`its pod was taken off its node: ${messageOr(disrupted, "disrupted")}`)
  if (phase !== "Failed") return null
  if (reason === "DeadlineExceeded") return pastDeadline()
  return NODE_REASONS.test(reason) ? lost(`its pod was taken off its node (${reason}): ${message}`.replace(/: $/, "")) : null
}

/** Returns the outcome of work that something other than itself ended; null for any other. */
const removal = (job: LatestObject<JobObject>, displaced: JobOutcome | null): JobOutcome | null => {
  if (failedCondition(job)?.reason === "DeadlineExceeded") return pastDeadline()
  if (displaced !== null) return displaced
  if (job.object?.metadata.deletionTimestamp !== undefined) return deletedJob()
  if (!job.gone) return null
  const finished = anyCondition(job, "Complete", "Failed") !== undefined
  return finished || job.vanished ? lost("its job was gone before its end was seen") : deletedJob()
}

const failure = (pod: PodObject | null, memoryBytes: number): JobOutcome => {
  const terminated = containerOf(pod)?.state?.terminated
  if (terminated === undefined) return failureBeforeStart(pod)
  const { exitCode, reason = "", message = "" } = terminated
  switch (reason) {
    case "ContainerStatusUnknown":
      return lost("its node no longer knows how it ended")
    case "StartError":
    case "ContainerCannotRun":
      return { state: "failed", exitCode: null, message: "", error: `could not start: ${describeStartFailure(message)}` }
    default:
      return { state: "failed", exitCode, message, error: describeExit(terminated, memoryBytes) }
  }
}

const failureBeforeStart = (pod: PodObject | null): JobOutcome => {
  const init = pod?.status?.initContainerStatuses?.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0)
  if (init === undefined) return lost(`its pod failed: ${messageOr(pod?.status ?? {}, "the cluster gives no reason")}`)
  const error = `could not start: its init container ${init.name} ended: ${describeExit(init.state!.terminated!, 0)}`
  return { state: "failed", error, exitCode: null, message: "" }
}

const waitingPod = (pod: PodObject): JobState => {
  const { reason = "", message = "" } = containerOf(pod)?.state?.waiting ?? {}
  const stuck = (problem: string, permanent: boolean): JobState => ({
    phase: "stuck",
    permanent,
    error: `could not start: ${problem}`,
  })
  if (BAD_IMAGE_REASONS.has(reason)) return stuck(`the image cannot be used (${reason}): ${message}`, true)
  if (IMAGE_PULL_REASONS.has(reason)) return stuck(`the image cannot be pulled: ${message || reason}`, false)
  if (BAD_CONTAINER_REASONS.has(reason)) {
    const root = /runAsNonRoot|non-root/.test(message)
    const hint = root ? " (set kubernetes.security.run_as_user, or run_as_non_root: false)" : ""
    return stuck(`${message || reason}${hint}`, root)
  }
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled")
  if (scheduled?.status === "False") return { phase: "waiting", reason: messageOr(scheduled, "it is not scheduled") }
  return { phase: "waiting", reason: reason || null }
}

/** Characters of the termination message that an error quotes. */
const MAX_MESSAGE = 1000

const describeExit = ({ exitCode, reason, message = "" }: Terminated, memoryBytes: number): string => {
  const exit = describeExitCode(exitCode)
  if (reason === "OOMKilled") return `${exit}: ${outOfMemory(memoryBytes)}`
  const last = message.trim()
  return last === "" ? exit : `${exit}: ${last.slice(-MAX_MESSAGE)}`
}

const describeStartFailure = (message: string): string =>
  describeMissingProgram(message) ?? (message || "the container could not be run")
