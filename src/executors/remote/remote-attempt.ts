// The life cycle of one attempt whose work runs on a cluster: submit or find again → wait → follow → finish. Subclasses
// contribute the requests to their cluster and how its state is read. The work outlives this process: after `shutdown` or
// `lost` it is handed over untouched, and the next launch of the same attempt finds it.

import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { AttemptState } from "../../core/model/status.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type ContainerEnd, watchExec } from "../exec/exec.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import type { OutputResult } from "../output.ts"
import { stoppedResult } from "../stopped.ts"
import { WakeSignal } from "./wake-signal.ts"
import { delay } from "./retry.ts"

/** Time after the grace period for the cluster to end stopped work, in milliseconds. */
const KILL_TIMEOUT_MS = 60_000

export interface RemoteLaunch {
  assignment: Assignment
  context: LaunchContext
  objects: ObjectStore
  clock: Clock
  /** True when the container runs `ork exec`, which writes log, output and result to the object store. */
  exec: boolean
}

/** The outcome of work that has ended, as the cluster reports it. */
export interface Outcome {
  state: Extract<AttemptState, "success" | "failed" | "lost" | "timeout">
  error: string | null
  exitCode: number | null
}

/**
 * The end of the work (null: it is gone, and how it ended is unknown), or the time until it is observed again (null: when the
 * cluster reports a change).
 */
export type Observation<End> = { end: End | null } | { recheckMs: number | null }

/** `Handle` identifies the submitted work; `End` is what the cluster knows about work that has ended. */
export abstract class RemoteAttempt<Handle, End> {
  protected readonly assignment: Assignment
  protected readonly context: LaunchContext
  protected readonly objects: ObjectStore
  protected readonly clock: Clock
  protected readonly exec: boolean
  /** True when the status that `ork exec` writes reports the start; false when the cluster does so sooner. */
  protected readonly execReportsStart: boolean = false
  protected externalId: string | null = null
  protected startedAt: number | null = null
  /** End of the work; null when only the time is known at which it was seen. */
  protected finishedAt: number | null = null
  /** The cluster's reason for not having started the work yet; null when it gives none. */
  protected waitingFor: string | null = null
  /** True once the cluster was asked to stop work that had not ended by then. */
  protected stopRequested = false
  /** True once the end of the work is no longer waited for. */
  protected gaveUp = false
  /** Aborts when another process continues with the work. */
  protected readonly handover: AbortSignal
  readonly #changes: WakeSignal

  constructor({ assignment, context, objects, clock, exec }: RemoteLaunch) {
    this.assignment = assignment
    this.context = context
    this.objects = objects
    this.clock = clock
    this.exec = exec
    this.startedAt = assignment.adopted?.startedAt ?? null
    this.handover = handoverOf(context.signal)
    this.#changes = new WakeSignal(clock)
  }

  // -- what a cluster contributes ------------------------------------------------------------------------------------------------

  /** Submits the work, or finds what an earlier launch submitted. null: stopped before anything was submitted. */
  protected abstract submit(): Promise<Handle | null>
  protected abstract submitFailure(error: unknown): Pick<AttemptResult, "error" | "retryable">
  /** Reads the state of the work; called after every change. Rejects when the work can no longer be followed. */
  protected abstract observe(handle: Handle): Observation<End> | Promise<Observation<End>>
  protected abstract outcome(handle: Handle, end: End): Outcome | Promise<Outcome>
  /**
   * Reads the rest of the log and returns the result. `end` is null when the end of the work is unknown: it was stopped then.
   */
  protected abstract finish(handle: Handle, end: End | null): Promise<AttemptResult>
  /**
   * Asks the cluster to end the work gracefully, and repeats that until the cluster accepts it or `over` aborts. Never rejects.
   */
  protected abstract requestStop(handle: Handle, over: AbortSignal): Promise<void>
  /** Removes work that is no longer followed, so that it does not run beside the next attempt. Never rejects. */
  protected abstract abandon(handle: Handle): Promise<void>
  protected abstract describeError(error: unknown): string
  /** Frees local resources. Called once, with null when nothing was submitted. */
  protected abstract close(handle: Handle | null): Promise<void>

  /** Returns true when the work has ended by itself and needs no stop. */
  protected hasEnded(_handle: Handle): boolean | Promise<boolean> {
    return false
  }

  /** Kills work that has ignored the stop request. A no-op for clusters that do so themselves after the grace period. */
  protected async kill(_handle: Handle, _over: AbortSignal): Promise<void> {}

  // -- life cycle ----------------------------------------------------------------------------------------------------------------

  async run(): Promise<AttemptResult> {
    let handle: Handle | null = null
    try {
      try {
        handle = await this.submit()
      } catch (error) {
        if (this.context.signal.aborted) return this.stopped()
        return { state: "failed", startedAt: null, finishedAt: this.clock.now(), ...this.submitFailure(error) }
      }
      return handle === null || this.handedOver ? this.stopped() : await this.#follow(handle)
    } finally {
      await this.close(handle)
    }
  }

  async #follow(handle: Handle): Promise<AttemptResult> {
    const stopListening = this.#stopOnAbort(handle)
    try {
      return this.exec ? await this.#followExec(handle) : await this.finish(handle, await this.#untilEnd(handle))
    } catch (error) {
      if (this.handedOver) return this.stopped()
      await this.abandon(handle)
      return { ...this.base(), state: "failed", error: `could not be followed: ${this.describeError(error)}` }
    } finally {
      stopListening()
    }
  }

  /** Resolves with null when the work was handed over, could not be stopped, or ended in an unknown way. */
  async #untilEnd(handle: Handle): Promise<End | null> {
    while (!this.handedOver && !this.gaveUp) {
      const observation = await this.observe(handle)
      if ("end" in observation) return observation.end
      await this.#changes.wait(observation.recheckMs ?? undefined)
    }
    return null
  }

  /** Takes the result from what `ork exec` writes, or from the cluster when the container ends without writing one. */
  async #followExec(handle: Handle): Promise<AttemptResult> {
    const { assignment, objects, clock, externalId } = this
    const context = this.execReportsStart ? this.context : withoutStart(this.context)
    const interrupted = Promise.withResolvers<AttemptResult>()
    let ended = false
    const containerEnd = this.#untilEnd(handle).then(async (end) => {
      ended = true
      if (this.handedOver) interrupted.resolve(this.stopped())
      return end === null ? NOT_FOLLOWED : containerEndOf(await this.outcome(handle, end))
    })
    containerEnd.catch((error: unknown) => interrupted.reject(error as Error))
    try {
      const watched = watchExec({ objects, clock, assignment, context, containerEnd, externalId })
      const result = await Promise.race([watched, interrupted.promise])
      if (!ended && result.state === "lost" && !this.handedOver) await this.abandon(handle)
      return { ...result, ...this.#waitedFor(this.execReportsStart ? result.startedAt : this.startedAt) }
    } finally {
      this.giveUp()
    }
  }

  /** Stops the work on abort. */
  #stopOnAbort(handle: Handle): () => void {
    const { signal } = this.context
    const over = new AbortController()
    const onAbort = async (): Promise<void> => {
      if (!this.handedOver && !(await this.hasEnded(handle)) && !over.signal.aborted) void this.#stop(handle, over.signal)
      this.changed()
    }
    const listener = (): void => void onAbort()
    if (signal.aborted) listener()
    else signal.addEventListener("abort", listener, { once: true })
    return () => {
      over.abort()
      signal.removeEventListener("abort", listener)
    }
  }

  /**
   * Kills the work after the grace period, and gives up KILL_TIMEOUT_MS later. Both count from the time at which the cluster
   * accepted the request. `over` aborts when the attempt has ended.
   */
  async #stop(handle: Handle, over: AbortSignal): Promise<void> {
    this.stopRequested = true
    await this.requestStop(handle, over)
    await delay(this.clock, this.assignment.graceMs, over)
    if (over.aborted) return
    await this.kill(handle, over)
    await delay(this.clock, KILL_TIMEOUT_MS, over)
    if (!over.aborted) this.giveUp()
  }

  // -- helpers for subclasses ----------------------------------------------------------------------------------------------------

  /** True when another process continues with the work: this one must not touch it. */
  protected get handedOver(): boolean {
    return this.handover.aborted
  }

  /** Ends the wait for the end of the work. */
  protected giveUp(): void {
    this.gaveUp = true
    this.changed()
  }

  /** Makes the attempt observe the work again. */
  protected readonly changed = (): void => this.#changes.wake()

  /** Reports the start of the work, once. */
  protected markStarted(at = this.clock.now()): void {
    if (this.startedAt !== null) return
    this.startedAt = at
    if (this.exec && this.execReportsStart) return
    this.context.started({ at, ...(this.externalId !== null && { externalId: this.externalId }) })
  }

  protected base(exitCode: number | null = null): Omit<AttemptResult, "state"> {
    return {
      startedAt: this.startedAt,
      finishedAt: this.finishedAt ?? this.clock.now(),
      ...(this.externalId !== null && { externalId: this.externalId }),
      ...(exitCode !== null && { exitCode }),
    }
  }

  /** Returns the result of work that was stopped before it ended by itself. */
  protected stopped(exitCode: number | null = null): AttemptResult {
    const base = { ...this.base(exitCode), ...this.#waitedFor(this.startedAt) }
    return stoppedResult(this.context.signal.reason as StopReason, base, this.assignment)
  }

  /** Returns the result of work that ended by itself. `output` counts for a success. */
  protected resultOf({ state, error, exitCode }: Outcome, output: OutputResult): AttemptResult {
    const base = this.base(exitCode)
    if (state !== "success") return { ...base, state, ...(error !== null && { error }) }
    return "error" in output ? { ...base, state: "failed", error: output.error } : { ...base, state, output: output.output }
  }

  #waitedFor(startedAt: number | null): Pick<AttemptResult, "waitedFor"> {
    return startedAt === null && this.waitingFor !== null ? { waitedFor: this.waitingFor } : {}
  }
}

const handoverOf = (signal: AbortSignal): AbortSignal => {
  const handover = new AbortController()
  const onAbort = (): void => {
    const reason = signal.reason as StopReason
    if (reason === "shutdown" || reason === "lost") handover.abort()
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener("abort", onAbort, { once: true })
  return handover.signal
}

const NOT_FOLLOWED: ContainerEnd = { state: "lost", error: "its container is no longer followed" }

const withoutStart = (context: LaunchContext): LaunchContext => ({
  signal: context.signal,
  started: () => {},
  progress: (update) => context.progress(update),
})

/** Returns the result of a container in which `ork exec` wrote none: its success is a failure. */
const containerEndOf = ({ state, error, exitCode }: Outcome): ContainerEnd => {
  const base = exitCode === null ? {} : { exitCode }
  if (state !== "success") return { ...base, state, ...(error !== null && { error }) }
  const hint = "does it run `ork exec`, on the same object store?"
  return { ...base, state: "failed", error: `its container ended without writing a result: ${hint}` }
}
