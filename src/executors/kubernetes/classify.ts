// What a Job and its pod tell about an attempt. Pure: everything that the cluster may show is told apart here.

import type { AttemptState } from "../../core/model/status.ts"
import type { Latest } from "./namespace-watch.ts"
import { CONTAINER, hasCondition, type JobObject, type PodObject, type Terminated } from "./shapes.ts"
import { exitInWords, startInWords } from "./messages.ts"

export interface Ending {
  state: Extract<AttemptState, "success" | "failed" | "lost" | "timeout">
  error: string | null
  exitCode: number | null
  /** What it left as its termination message: its output, or its last words. */
  message: string
  retryable?: false
  /** It came before anybody took the pod down. */
  certain?: true
}

export type Standing =
  /** Not yet. `why`: the cluster's own words, when there is something to say. */
  | { phase: "waiting"; why: string | null }
  /** It does not get going, and waiting will hardly help: for a while, or not at all. */
  | { phase: "stuck"; error: string; hopeless: boolean }
  | { phase: "running" }
  | { phase: "ended"; ending: Ending }
  /** It is being taken down by somebody else. `ending` counts when nothing more is heard. */
  | { phase: "leaving"; ending: Ending }

/** The node refused it, or threw it out. */
const NODE_REASONS =
  /^(?:Evicted|Preempt\w*|NodeLost|NodeShutdown|NodeAffinity|Shutdown|Terminated|OutOf\w+|UnexpectedAdmissionError|Unexpected\w*|HostPortConflict)$/
const PULLING = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "RegistryUnavailable",
  "ImageInspectError",
  "SignatureValidationFailed",
])
const BAD_IMAGE = new Set(["InvalidImageName", "ErrImageNeverPull"])
const BAD_CONTAINER = new Set(["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])

const lost = (error: string): Ending => ({ state: "lost", error, exitCode: null, message: "" })

export const standingOf = (job: Latest<JobObject>, pod: Latest<PodObject>, memoryBytes: number): Standing => {
  const seen = pod.object
  const conditions = job.object?.status?.conditions
  const terminated = containerOf(seen)?.state?.terminated
  // What ends well because it is told to go has not done its work: only what ended before counts.
  const done = containerOf(pod.calm)?.state?.terminated
  if (done?.exitCode === 0 && (displacedBy(pod.calm) === null || pod.calm?.status?.phase === "Succeeded"))
    return succeeded(done)
  const deleting = seen?.metadata.deletionTimestamp !== undefined || pod.gone
  const taken = takenDown(job, displacedBy(seen))
  const over = pod.gone || (seen !== null && isOver(seen))
  if (taken !== null) return { phase: over || (job.gone && seen === null) ? "ended" : "leaving", ending: taken }
  const failed = hasCondition(conditions, "FailureTarget") ?? hasCondition(conditions, "Failed")
  const complete = hasCondition(conditions, "SuccessCriteriaMet") ?? hasCondition(conditions, "Complete")
  if (deleting) {
    const ending = lost("its pod was deleted from outside of Ork")
    return { phase: over && failed !== undefined ? "ended" : "leaving", ending }
  }
  if (over) return { phase: "ended", ending: failure(seen, terminated, memoryBytes) }
  if (containerOf(seen)?.state?.running !== undefined) return { phase: "running" }
  if (seen === null && failed !== undefined) {
    return { phase: "leaving", ending: lost(`its job failed: ${told(failed, "its pod was not seen")}`) }
  }
  if (seen === null && complete !== undefined) {
    return { phase: "leaving", ending: lost("its pod is gone, and with it its log and output") }
  }
  return waiting(seen)
}

const containerOf = (pod: PodObject | null) => pod?.status?.containerStatuses?.find(({ name }) => name === CONTAINER)

/** Nothing of it runs any more. */
export const isOver = (pod: PodObject): boolean =>
  containerOf(pod)?.state?.terminated !== undefined || pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded"

const told = ({ reason = "", message = "" }: { reason?: string; message?: string }, otherwise: string): string =>
  message || reason || otherwise

const succeeded = ({ message = "" }: Terminated): Standing => ({
  phase: "ended",
  ending: { state: "success", error: null, exitCode: 0, message, certain: true },
})

/** The node, or whoever looks after nodes, wants the pod to go. */
const displacedBy = (pod: PodObject | null): Ending | null => {
  const { phase, reason = "", message = "", conditions } = pod?.status ?? {}
  const disrupted = hasCondition(conditions, "DisruptionTarget")
  if (disrupted !== undefined) return lost(`its pod was taken off its node: ${told(disrupted, "disrupted")}`)
  if (phase !== "Failed") return null
  if (reason === "DeadlineExceeded") return pastDeadline()
  return NODE_REASONS.test(reason) ? lost(`its pod was taken off its node (${reason}): ${message}`.replace(/: $/, "")) : null
}

const pastDeadline = (): Ending => ({
  ...lost("stopped by the cluster at its deadline, as no server did so before"),
  state: "timeout",
})

/** Who or what ended it, apart from itself. */
const takenDown = (job: Latest<JobObject>, displaced: Ending | null): Ending | null => {
  const conditions = job.object?.status?.conditions
  const failed = hasCondition(conditions, "FailureTarget") ?? hasCondition(conditions, "Failed")
  if (failed?.reason === "DeadlineExceeded") return pastDeadline()
  if (displaced !== null) return displaced
  if (job.object?.metadata.deletionTimestamp !== undefined) {
    return { ...lost("its job was deleted from outside of Ork"), state: "failed" }
  }
  if (job.gone) {
    const finished = hasCondition(conditions, "Complete") ?? hasCondition(conditions, "Failed")
    if (finished !== undefined || job.vanished) return lost("its job was gone before its end was seen")
    return { ...lost("its job was deleted from outside of Ork"), state: "failed" }
  }
  return null
}

const failure = (pod: PodObject | null, terminated: Terminated | undefined, memoryBytes: number): Ending => {
  if (terminated === undefined) {
    const first = pod?.status?.initContainerStatuses?.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0)
    if (first === undefined) return lost(`its pod failed: ${told(pod?.status ?? {}, "the cluster says no more")}`)
    const error = `could not start: its init container ${first.name} ended: ${exitInWords(first.state!.terminated!, 0)}`
    return { state: "failed", error, exitCode: null, message: "" }
  }
  const { exitCode, reason = "", message = "" } = terminated
  const base = { state: "failed", exitCode, message } as const
  switch (reason) {
    case "ContainerStatusUnknown":
      return lost("its node no longer knows what became of it")
    case "StartError":
    case "ContainerCannotRun":
      return { ...base, exitCode: null, message: "", error: `could not start: ${startInWords(message)}` }
    default:
      return { ...base, error: exitInWords(terminated, memoryBytes) }
  }
}

const waiting = (pod: PodObject | null): Standing => {
  const { reason = "", message = "" } = containerOf(pod)?.state?.waiting ?? {}
  if (BAD_IMAGE.has(reason)) {
    return { phase: "stuck", hopeless: true, error: `could not start: the image cannot be used (${reason}): ${message}` }
  }
  if (PULLING.has(reason)) {
    return { phase: "stuck", hopeless: false, error: `could not start: the image cannot be pulled: ${message || reason}` }
  }
  if (BAD_CONTAINER.has(reason)) {
    const user = /runAsNonRoot|non-root/.test(message)
    const hint = user ? " (set kubernetes.security.run_as_user, or run_as_non_root: false)" : ""
    return { phase: "stuck", hopeless: user, error: `could not start: ${message || reason}${hint}` }
  }
  const scheduled = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled")
  if (scheduled?.status === "False") return { phase: "waiting", why: told(scheduled, "it is not scheduled") }
  return { phase: "waiting", why: pod === null ? "the cluster has made no pod for its job" : reason || null }
}
