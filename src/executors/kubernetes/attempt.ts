// One attempt as a Job of the cluster. The namespace's shared watch observes the Job and its pod; classify.ts reads them.

import type { AttemptResult } from "../../core/model/change.ts"
import { openLog } from "../../objects/logs/log-sink.ts"
import { type Observation, RemoteAttempt, type RemoteLaunch } from "../remote/remote-attempt.ts"
import { describeError, isPermanent } from "./api-error.ts"
import {
  classify,
  hasStarted,
  isOver,
  isSettled,
  type JobOutcome,
  type JobState,
  outcomeOf,
  podOf,
  timesOf,
} from "./classify.ts"
import type { Cluster } from "./cluster.ts"
import type { JobRequest } from "./job.ts"
import { type Creation, type JobRequests, NameTaken } from "./job-requests.ts"
import { PodLog } from "./log.ts"
import type { NamespaceWatch, TrackedAttempt } from "./namespace-watch.ts"
import { jobName } from "./shapes.ts"
import type { LastLine } from "../../objects/logs/log-writer.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment } from "../executor.ts"
import { NO_OUTPUT, outputFromLog, type OutputResult, outputTarget, parseOutput } from "../output.ts"

/** Time for a problem to pass that keeps a pod from starting: a registry that is overloaded, a Secret that does not exist yet. */
const RECOVERY_TIMEOUT_MS = 30_000
/** Delay with which a watch reports a change, at most. */
const JUST_NOW_MS = 2000
/** Time for the cluster to report why a pod was removed. */
const SETTLE_MS = 5000
/** Time after the grace period for a terminating pod to disappear; then its node is considered dead. */
const TERMINATING_MS = 60_000
/** Time to read the rest of the log after the container has ended. A success may have its output there. */
const LOG_MS = 300_000
/** Time to read the rest of the log of a failed container, whose node may be dead. */
const FAILED_LOG_MS = 30_000

export interface KubernetesLaunch extends RemoteLaunch {
  cluster: Cluster
  requests: JobRequests
  namespace: NamespaceWatch
  request: JobRequest
}

export class KubernetesAttempt extends RemoteAttempt<TrackedAttempt, JobOutcome> {
  readonly #launch: KubernetesLaunch
  readonly #tracked: TrackedAttempt
  /** Time before which the work cannot have started; 0 when an earlier server may have started it. */
  readonly #launchedAt: number
  /** The Job existed before this launch. */
  #found = false
  #log: PodLog | null = null
  /** An outcome that no later deletion of the pod can change. */
  #certain: JobOutcome | null = null
  /** The present problem that may pass, with its longest message: the first message is often more specific than later ones. */
  #passingProblem: { phase: JobState["phase"]; since: number; message: string } | null = null

  constructor(launch: KubernetesLaunch) {
    super(launch)
    this.#launch = launch
    const { attemptId, adopted } = launch.assignment
    this.#launchedAt = adopted === undefined ? this.clock.now() : 0
    this.externalId = `${launch.namespace.name}/${jobName(attemptId)}`
    this.#tracked = launch.namespace.track(attemptId, this.changed)
  }

  protected async submit(): Promise<TrackedAttempt | null> {
    const { namespace, requests, request, assignment } = this.#launch
    const { signal } = this.context
    const tracked = this.#tracked
    const target = { namespace: namespace.name, assignment, tracked }
    const creation: Creation = { mayExist: assignment.adopted !== undefined, problem: null }
    try {
      await Promise.race([namespace.ready(), aborted(signal)])
      if (!signal.aborted) {
        this.#found = await requests.create(target, request, creation, signal)
        return tracked
      }
    } catch (error) {
      if (!signal.aborted) {
        if (creation.mayExist && !(error instanceof NameTaken)) await this.#remove()
        throw error
      }
    }
    this.waitingFor = creation.problem ?? namespace.problem
    if (this.handedOver || !creation.mayExist) return null
    return (await requests.find(target)) === null ? null : tracked
  }

  protected submitFailure(error: unknown): Pick<AttemptResult, "error" | "retryable"> {
    return {
      error: `could not create the job: ${describeError(error)}`,
      ...(isPermanent(error) && { retryable: false }),
    }
  }

  protected async observe(tracked: TrackedAttempt): Promise<Observation<JobOutcome>> {
    const { job } = tracked
    const pod = podOf(tracked)
    const state = classify(job, pod, this.assignment.node.resources?.memoryBytes ?? 0)
    const { startedAt, finishedAt } = timesOf(pod)
    if (finishedAt !== null) this.finishedAt = this.#localTime(finishedAt)
    if (hasStarted(state)) {
      this.markStarted(this.#localTime(startedAt))
      if (!this.exec && pod.object !== null && !pod.gone) await this.#openLog(pod.object.metadata.name)
    }
    if (state.phase === "waiting") this.waitingFor = state.reason ?? this.waitingFor
    const outcome = outcomeOf(state)
    if (outcome?.certain === true) this.#certain = outcome
    if (this.stopRequested) {
      const removed = job.gone && (pod.object === null || pod.gone || state.phase === "ended")
      return removed ? { end: this.#certain ?? outcome } : { recheckMs: null }
    }
    if (state.phase === "ended") return { end: state.outcome }
    return outcome === null ? this.#withoutProblem() : await this.#awaitRecovery(state, outcome)
  }

  /**
   * Returns a time of the node as one of the server: not before the launch, and not in the future. Times of nodes have whole
   * seconds, so that one that has just passed is now.
   */
  #localTime(time: number | null): number {
    const now = this.clock.now()
    if (time === null || now - time < JUST_NOW_MS) return now
    return Math.max(time, this.startedAt ?? this.#launchedAt)
  }

  #withoutProblem(): Observation<JobOutcome> {
    this.#passingProblem = null
    return { recheckMs: null }
  }

  /** Waits for the problem to pass, as long as that is likely; then removes the Job, so that it does not start later. */
  async #awaitRecovery(state: JobState, outcome: JobOutcome): Promise<Observation<JobOutcome>> {
    if (this.#passingProblem?.phase !== state.phase)
      this.#passingProblem = { phase: state.phase, since: this.clock.monotonic(), message: "" }
    const problem = this.#passingProblem
    const { error } = outcome
    if (error !== null && error.length > problem.message.length) problem.message = error
    const recheckMs = problem.since + this.#recoveryTimeoutMs(state) - this.clock.monotonic()
    if (recheckMs > 0) return { recheckMs }
    const { object, gone } = this.#tracked.job
    if (object !== null && !gone && !isSettled(object)) await this.#remove()
    return { end: { ...outcome, error: problem.message || null } }
  }

  #recoveryTimeoutMs(state: JobState): number {
    if (state.phase === "stuck") return state.permanent ? 0 : RECOVERY_TIMEOUT_MS
    const { object, gone } = podOf(this.#tracked)
    const over = object === null || gone || isOver(object)
    return over ? SETTLE_MS : this.assignment.graceMs + TERMINATING_MS
  }

  protected outcome(_tracked: TrackedAttempt, end: JobOutcome): JobOutcome {
    return end
  }

  async #openLog(pod: string): Promise<void> {
    if (this.#log?.pod === pod) return
    const { objects, clock } = this
    const { prefix } = this.assignment
    await this.#log?.close()
    // The pod still has its whole log, so the stored one is written again from the start.
    if (this.#found || this.#log !== null) await objects.deletePrefix(prefix)
    const { cluster, namespace } = this.#launch
    this.#log = new PodLog({ cluster, clock, namespace: namespace.name, pod, sink: openLog(objects, prefix, this.assignment) })
  }

  protected async finish(_tracked: TrackedAttempt, end: JobOutcome | null): Promise<AttemptResult> {
    const waitMs = this.handedOver ? 0 : end?.state === "success" ? LOG_MS : FAILED_LOG_MS
    const log = (await this.#log?.finish(waitMs)) ?? { complete: true, last: null }
    // A success before the stop stays one, if its output is known.
    const stopped = this.stopRequested && !(end?.state === "success" && end.certain === true && log.complete)
    if (end === null || stopped) return this.stopped(end?.exitCode)
    if (end.state === "success") return this.resultOf(end, await outputOf(end.message, log, this.objects, this.assignment))
    const error = (end.error ?? "") + (log.complete ? "" : " (its log is incomplete)")
    return { ...this.base(end.exitCode), state: end.state, error, ...(end.retryable === false && { retryable: false }) }
  }

  protected async requestStop(tracked: TrackedAttempt, over: AbortSignal): Promise<void> {
    const { requests, namespace, assignment } = this.#launch
    if (this.startedAt === null && this.context.signal.reason === "timeout") {
      const about = podOf(tracked).object?.metadata.name ?? jobName(assignment.attemptId)
      this.waitingFor = (await requests.latestWarning(namespace.name, about)) ?? this.waitingFor
    }
    if (await this.#remove(over)) return
    tracked.job.remove(null)
    tracked.pods.remove(null)
    this.changed()
  }

  protected async abandon(): Promise<void> {
    await this.#remove()
  }

  protected describeError(error: unknown): string {
    return describeError(error)
  }

  protected async close(tracked: TrackedAttempt | null): Promise<void> {
    const { namespace, assignment } = this.#launch
    namespace.untrack(assignment.attemptId, this.#tracked)
    await this.#log?.close()
    if (tracked !== null && !this.handedOver && !this.stopRequested) await this.#removeSidecars(tracked)
  }

  /** Removes a Job whose pod has containers that were injected by others: they would keep it for ever. */
  async #removeSidecars(tracked: TrackedAttempt): Promise<void> {
    const containers = podOf(tracked).object?.status?.containerStatuses ?? []
    if (containers.length > 1 && containers.some(({ state }) => state?.terminated === undefined)) await this.#remove()
  }

  /** Deletes the Job and its pod. Resolves with false when there was none. */
  #remove(until: AbortSignal = this.handover): Promise<boolean> {
    const { requests, namespace, assignment } = this.#launch
    return requests.remove(namespace.name, assignment.attemptId, until).catch(() => true)
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve(), { once: true })
  })

/** Kubernetes truncates longer termination messages at their start. */
const MAX_MESSAGE = 4096

interface ReadLog {
  complete: boolean
  /** null: the log was never opened. */
  last: LastLine | null
}

/** Reads the output of a success: its termination message, which is the content of $ORK_OUTPUT, else the last line of its log. */
const outputOf = async (
  message: string,
  { complete, last }: ReadLog,
  objects: ObjectStore,
  assignment: Assignment,
): Promise<OutputResult> => {
  if (message.trim() !== "") return messageOutput(message, assignment.secrets)
  if (!complete) return { error: "its log could not be read to its end, so its output is not known" }
  return last === null ? NO_OUTPUT : await outputFromLog(last, outputTarget(objects, assignment))
}

const messageOutput = (message: string, secrets: readonly string[]): OutputResult => {
  const bytes = Buffer.from(message)
  if (bytes.length < MAX_MESSAGE) return parseOutput(bytes, secrets)
  return {
    error: `what it wrote to $ORK_OUTPUT is larger than the ${MAX_MESSAGE} bytes that Kubernetes passes on: print it as the last line, or use kubernetes.exec`,
  }
}
