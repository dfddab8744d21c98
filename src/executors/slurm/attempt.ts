// One attempt as a job of a Slurm cluster. The exit code in its folder is authoritative for the command; the queue provides the
// rest.

import type { AttemptResult } from "../../core/model/change.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { LastLine } from "../../objects/logs/log-writer.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { NO_OUTPUT, outputTarget, readOutput } from "../output.ts"
import { type Observation, type Outcome, RemoteAttempt, type RemoteLaunch } from "../remote/remote-attempt.ts"
import { backoff, delay } from "../remote/retry.ts"
import { describeJob, hasEndedBefore, isPermanent, mayHaveArrived, outcomeOf } from "./classify.ts"
import type { SlurmCli } from "./cli.ts"
import { FileFollower } from "./file-follower.ts"
import type { JobFolders } from "./job-folders.ts"
import type { JobLocation, QueuePoller, QueueWatch } from "./poller.ts"
import { isLive, isOver, isWaiting, type QueuedJob } from "./queue.ts"
import { FILES } from "./script.ts"
import type { Submitter, SubmitRequest } from "./submitter.ts"

/** Interval between reads of a running job's files; it grows while the job writes nothing. */
const READ_MS = 250
const MAX_READ_MS = 2000
/** Time for a shared file system to show what another machine has written. */
const SETTLE_MS = 5000
/** Time for the queue to report why a command failed. */
const REASON_MS = 15_000
/** Polls of the queue without the job after which it counts as gone. */
const MAX_MISSES = 3
const RETRY_MS = 2000
/** Time for the shared file system to become readable again. */
const UNREADABLE_MS = 60_000

export interface SlurmParts {
  cli: SlurmCli
  folders: JobFolders
  poller: QueuePoller
  submitter: Submitter
}

interface SubmittedJob {
  location: JobLocation
  watch: QueueWatch
  sink: LogSink
  follower: FileFollower
}

interface JobEnd {
  code: number | null
  job: QueuedJob | null
}

export class SlurmAttempt extends RemoteAttempt<SubmittedJob, JobEnd> {
  readonly #parts: SlurmParts
  #readMs = READ_MS
  /** Monotonic time at which the command or its job was first seen to have ended. */
  #endSeenAt: number | null = null
  /** Monotonic time since when the files of the job cannot be read; null while they can. */
  #unreadableSince: number | null = null
  #closedLog: Promise<{ last: LastLine }> | null = null
  /** The state of the job that was reported last. */
  #reported = ""

  constructor(parts: SlurmParts, launch: Omit<RemoteLaunch, "exec">) {
    super({ ...launch, exec: false })
    this.#parts = parts
  }

  protected async submit(): Promise<SubmittedJob | null> {
    const { folders, poller } = this.#parts
    const location = await this.#locate()
    if (location === null || this.handedOver) return null
    const sink = openLog(this.objects, this.assignment.prefix, this.assignment)
    const follower = new FileFollower(folders.task(location), sink)
    return { location, sink, follower, watch: poller.watch(location, this.changed) }
  }

  /** Finds the job of an earlier launch, or submits one. Resolves with null when the attempt was stopped before. */
  async #locate(): Promise<JobLocation | null> {
    const { folders, submitter } = this.#parts
    const { assignment } = this
    const { signal } = this.context
    const request: SubmitRequest = {
      assignment,
      signal,
      handedOver: () => this.handedOver,
      onProblem: (reason) => {
        this.waitingFor = reason
        this.#report(`Slurm has not accepted its job yet: ${reason}`)
      },
    }
    const earlier = await folders.find(assignment.attemptId)
    if (earlier === null) return signal.aborted ? null : await this.#unlessHandedOver(submitter.submit(request))
    // The job's files still have all of its output, so the stored log is written again from the start.
    await this.objects.deletePrefix(this.assignment.prefix)
    if (await folders.wasStarted(earlier)) return earlier
    if ((await this.#findInQueue(earlier)) !== null) return earlier
    return await this.#unlessHandedOver(submitter.resubmit(request, earlier))
  }

  /** Resolves with null at once when another process continues with the attempt. */
  #unlessHandedOver(submission: Promise<JobLocation | null>): Promise<JobLocation | null> {
    submission.catch(() => {})
    return new Promise((resolve, reject) => {
      submission.then(resolve, reject)
      this.handover.addEventListener("abort", () => resolve(null), { once: true })
    })
  }

  /**
   * Retries until the queue can be read, also after a cancel: a job that waits there unnoticed would run later. Rejects when another
   * process continues with the attempt, or when Ork stops.
   */
  async #findInQueue(location: JobLocation): Promise<QueuedJob | null> {
    const { poller } = this.#parts
    for (;;) {
      try {
        return await poller.find(location)
      } catch (error) {
        if (this.handedOver || poller.isStopped) throw error
        await delay(this.clock, RETRY_MS, this.handover)
      }
    }
  }

  protected submitFailure(error: unknown): Pick<AttemptResult, "error" | "retryable"> {
    const message = messageOf(error)
    return { error: `could not submit the job: ${message}`, ...(isPermanent(message) && { retryable: false }) }
  }

  /** Waits a while for files that cannot be read: the job does not end with the server that shares them. */
  protected async observe(submitted: SubmittedJob): Promise<Observation<JobEnd>> {
    try {
      const observation = await this.#observe(submitted)
      this.#unreadableSince = null
      return observation
    } catch (error) {
      const now = this.clock.monotonic()
      this.#unreadableSince ??= now
      if (now - this.#unreadableSince > UNREADABLE_MS) throw error
      this.#report(`the files of its job cannot be read: ${messageOf(error)}`)
      return { recheckMs: RETRY_MS }
    }
  }

  async #observe({ location, watch, follower }: SubmittedJob): Promise<Observation<JobEnd>> {
    const { folders } = this.#parts
    const { job = null } = watch
    if (job !== null && !isOver(job)) this.#report(describeJob(job))
    // Read before the log: the command writes its exit code last.
    const code = await folders.exitCode(location)
    const live = code !== null || (job !== null && isLive(job)) || (await this.#hasStarted(location))
    if (live) this.#begin(job, location)
    this.#readMs = live && (await follower.copy()) ? READ_MS : Math.min(MAX_READ_MS, this.#readMs * 1.5)
    if (code === 0) return { end: { code, job } }
    const gone = job === null ? watch.misses >= MAX_MISSES : isOver(job)
    if (code === null && !gone) return { recheckMs: live ? this.#readMs : null }
    const waited = this.#timeSinceEnd()
    if (gone && (code !== null || this.stopRequested || waited >= SETTLE_MS || endsAbruptly(job))) {
      if (job === null && code === null && !(await this.#cancelMissing(watch))) return { recheckMs: RETRY_MS }
      await follower.copy()
      return { end: { code, job } }
    }
    if (code !== null && waited >= REASON_MS) return { end: { code, job } }
    this.#readMs = READ_MS
    return { recheckMs: READ_MS }
  }

  #report(state: string): void {
    if (state === this.#reported) return
    this.#reported = state
    this.context.progress({ details: state })
  }

  #timeSinceEnd(): number {
    const now = this.clock.monotonic()
    if (this.#endSeenAt === null) this.#parts.poller.pollSoon()
    this.#endSeenAt ??= now
    return now - this.#endSeenAt
  }

  /** Reads the folder as well, because the queue may be behind. */
  async #hasStarted(location: JobLocation): Promise<boolean> {
    return this.startedAt !== null || (await this.#parts.folders.hasStarted(location))
  }

  #begin(job: QueuedJob | null, location: JobLocation): void {
    this.externalId ??= job?.id ?? location.name
    this.markStarted()
  }

  protected outcome(_submitted: SubmittedJob, { code, job }: JobEnd): Outcome {
    return outcomeOf(code, job, this.assignment.node.resources?.memoryBytes ?? 0)
  }

  protected async finish(submitted: SubmittedJob, end: JobEnd | null): Promise<AttemptResult> {
    const { last } = await this.#closeLog(submitted)
    if (end === null) return this.stopped()
    const outcome = this.outcome(submitted, end)
    if (this.stopRequested) return this.stopped(outcome.exitCode)
    if (outcome.state !== "success") return this.resultOf(outcome, NO_OUTPUT)
    const path = `${this.#parts.folders.task(submitted.location)}/${FILES.output}`
    return this.resultOf(outcome, await readOutput(path, last, outputTarget(this.objects, this.assignment)))
  }

  /** Returns whether the job has ended. A folder that cannot be read proves nothing: the job is stopped. */
  protected override async hasEnded({ location }: SubmittedJob): Promise<boolean> {
    return (await this.#parts.folders.exitCode(location).catch(() => null)) !== null
  }

  protected async requestStop(submitted: SubmittedJob, over: AbortSignal): Promise<void> {
    await this.#cancel(submitted, over, [["--full", "--signal=TERM"]])
  }

  /** Signals the processes before cancelling the job, because Slurm's own way to kill a job waits for KillWait. */
  protected override async kill(submitted: SubmittedJob, over: AbortSignal): Promise<void> {
    await this.#cancel(submitted, over, [["--batch", "--signal=KILL"], []])
  }

  /**
   * Runs `scancel` once per list of options, and repeats that until the controller accepts it. A job that still waits is removed
   * from the queue.
   */
  async #cancel({ watch, location }: SubmittedJob, over: AbortSignal, calls: string[][]): Promise<void> {
    const { poller } = this.#parts
    for (let failures = 0; !over.aborted; failures++) {
      try {
        const job = failures === 0 && watch.job ? watch.job : await poller.find(location)
        if (job === null || isOver(job)) return
        const all = isWaiting(job) ? [["--state=PENDING"], ...calls] : calls
        for (const options of all) await scancel(this.#parts.cli, [...options, job.id])
        return poller.pollSoon()
      } catch {
        await delay(this.clock, backoff(failures), over)
      }
    }
  }

  /** Cancels a job that the queue no longer lists, in case it runs anyway. Resolves with false when no controller responded. */
  async #cancelMissing({ lastSeen }: QueueWatch): Promise<boolean> {
    if (lastSeen === null) return true
    return await scancel(this.#parts.cli, [`--name=${lastSeen.name}`, lastSeen.id]).then(
      () => true,
      (error: unknown) => !mayHaveArrived(messageOf(error)),
    )
  }

  /** Leaves the job and its files to a sweep, which cancels it. */
  protected async abandon(): Promise<void> {
    this.gaveUp = true
  }

  protected describeError(error: unknown): string {
    return messageOf(error)
  }

  protected async close(submitted: SubmittedJob | null): Promise<void> {
    if (submitted === null) return
    const { location, watch, follower } = submitted
    watch.close()
    await follower.close()
    await this.#closeLog(submitted).catch(() => {})
    if (!this.handedOver && !this.gaveUp) await this.#parts.folders.remove(this.assignment.attemptId, location)
  }

  #closeLog({ sink }: SubmittedJob): Promise<{ last: LastLine }> {
    this.#closedLog ??= sink.close()
    return this.#closedLog
  }
}

/** Rejects unless the job was signalled or has ended. */
export const scancel = async (cli: SlurmCli, args: string[]): Promise<void> => {
  await cli.call("scancel", args).catch((error: unknown) => {
    if (!hasEndedBefore(messageOf(error))) throw error
  })
}

/** States in which the command was killed together with its job, so that it writes no exit code. */
const ABRUPT_STATES = new Set(["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE", "CANCELLED"])

const endsAbruptly = (job: QueuedJob | null): boolean => job !== null && ABRUPT_STATES.has(job.state)
