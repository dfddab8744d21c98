// One attempt as a Job of the cluster. The namespace's shared watch observes the Job and its pod; classify.ts reads them.

import type { AttemptResult } from "../../core/model/change.ts"
import { openLog } from "../../objects/logs/log-sink.ts"
import { type Observation, RemoteAttempt, type RemoteLaunch } from "../remote/remote-attempt.ts"
import { describeError, isPermanent, isTransient } from "./api-error.ts"
import { classify, hasStarted, isOver, isSettled, type JobOutcome, type JobState, outcomeOf } from "./classify.ts"
import type { Cluster } from "./cluster.ts"
import type { JobRequest } from "./job.ts"
import type { JobRequests } from "./job-requests.ts"
import { PodLog } from "./log.ts"
import type { NamespaceWatch, TrackedAttempt } from "./namespace-watch.ts"
import { outputOf } from "./output.ts"
import { jobName } from "./shapes.ts"

/** Patience with trouble that may pass: a registry that is overloaded, a Secret that does not exist yet. */
const STUCK_MS = 30_000
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
  /** The Job existed before this launch. */
  #found = false
  #log: PodLog | null = null
  /** An outcome that no later deletion of the pod can change. */
  #certain: JobOutcome | null = null
  /** The current trouble, with the longest message seen for it: the first message is often more specific than later ones. */
  #trouble: { phase: JobState["phase"]; since: number; message: string } | null = null

  constructor(launch: KubernetesLaunch) {
    super(launch)
    this.#launch = launch
    const { attemptId } = launch.assignment
    this.externalId = `${launch.namespace.name}/${jobName(attemptId)}`
    this.#tracked = launch.namespace.track(attemptId, this.changed)
  }

  protected async submit(): Promise<TrackedAttempt | null> {
    const { namespace, requests, request, assignment } = this.#launch
    const { signal } = this.context
    const tracked = this.#tracked
    const target = { namespace: namespace.name, assignment, tracked }
    try {
      await Promise.race([namespace.ready(), aborted(signal)])
      if (this.handedOver) return null
      if (signal.aborted) return (await requests.find(target)) === null ? null : tracked
      this.#found = await requests.create(target, request, signal)
      return tracked
    } catch (error) {
      if (this.handedOver) return null
      const exists = tracked.job.object !== null
      if (signal.aborted && exists) return tracked
      // The request may have succeeded although its response was lost.
      if (exists || isTransient(error)) await this.#remove(AbortSignal.abort())
      throw error
    }
  }

  protected submitFailure(error: unknown): Pick<AttemptResult, "error" | "retryable"> {
    return {
      error: `could not create the job: ${describeError(error)}`,
      ...(isPermanent(error) && { retryable: false }),
    }
  }

  protected async observe({ job, pod }: TrackedAttempt): Promise<Observation<JobOutcome>> {
    const state = classify(job, pod, this.assignment.node.resources?.memoryBytes ?? 0)
    if (hasStarted(state)) {
      this.markStarted()
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
    return outcome === null ? this.#untroubled() : await this.#inTrouble(state, outcome)
  }

  #untroubled(): Observation<JobOutcome> {
    this.#trouble = null
    return { recheckMs: null }
  }

  /** Waits for the trouble to pass, as long as that is likely; then removes the Job, so that it does not start later. */
  async #inTrouble(state: JobState, outcome: JobOutcome): Promise<Observation<JobOutcome>> {
    if (this.#trouble?.phase !== state.phase) this.#trouble = { phase: state.phase, since: this.clock.now(), message: "" }
    const trouble = this.#trouble
    const { error } = outcome
    if (error !== null && error.length > trouble.message.length) trouble.message = error
    const recheckMs = trouble.since + this.#patience(state) - this.clock.now()
    if (recheckMs > 0) return { recheckMs }
    const { object, gone } = this.#tracked.job
    if (object !== null && !gone && !isSettled(object)) await this.#remove()
    return { end: { ...outcome, error: trouble.message || null } }
  }

  #patience(state: JobState): number {
    if (state.phase === "stuck") return state.permanent ? 0 : STUCK_MS
    const { object, gone } = this.#tracked.pod
    const over = object === null || gone || isOver(object)
    return over ? SETTLE_MS : this.assignment.graceMs + TERMINATING_MS
  }

  protected outcome(_tracked: TrackedAttempt, end: JobOutcome): JobOutcome {
    return end
  }

  async #openLog(pod: string): Promise<void> {
    if (this.#log !== null) return
    const { objects, clock } = this
    const { prefix, secrets } = this.assignment
    // The pod still has its whole log, so the stored one is written again from the start.
    if (this.#found) await objects.deletePrefix(prefix)
    const { cluster, namespace } = this.#launch
    this.#log = new PodLog({ cluster, clock, namespace: namespace.name, pod, sink: openLog(objects, prefix, { secrets }) })
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

  protected async requestStop({ job, pod }: TrackedAttempt): Promise<void> {
    const { requests, namespace, assignment } = this.#launch
    if (this.startedAt === null && this.context.signal.reason === "timeout") {
      const about = pod.object?.metadata.name ?? jobName(assignment.attemptId)
      this.waitingFor = (await requests.latestWarning(namespace.name, about)) ?? this.waitingFor
    }
    if (await this.#remove()) return
    job.remove(null)
    pod.remove(null)
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
  async #removeSidecars({ pod }: TrackedAttempt): Promise<void> {
    const containers = pod.object?.status?.containerStatuses ?? []
    if (containers.length > 1 && containers.some(({ state }) => state?.terminated === undefined)) await this.#remove()
  }

  /** Deletes the Job and its pod. Resolves with false when there was none. */
  #remove(signal?: AbortSignal): Promise<boolean> {
    const { requests, namespace, assignment } = this.#launch
    return requests.remove(namespace.name, assignment.attemptId, signal).catch(() => true)
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve(), { once: true })
  })
