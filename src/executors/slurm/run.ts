// One attempt as a job of the cluster: submit or find again → wait → follow its files while it runs → end. The exit code in its folder is
// the truth about the command; the queue tells the rest.

import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import { readAnswer } from "../output.ts"
import { stoppedResult } from "../stopped.ts"
import type { SlurmCli } from "./cli.ts"
import { FileFollower } from "./file-follower.ts"
import type { JobFolders } from "./job-folders.ts"
import type { JobPlace, QueuePoller, Watch } from "./poller.ts"
import { isLive, isOver, isWaiting, type QueuedJob } from "./queue.ts"
import { FILES } from "./script.ts"
import type { Submitter } from "./submitter.ts"
import { endingOf, isHopeless } from "./messages.ts"

/** Between looks at the files of a job that runs; longer while it says nothing. */
const LOOK_MS = 250
const SLOW_LOOK_MS = 2000
/** A shared file system shows within this what another machine has written. */
const SETTLE_MS = 5000
/** The queue tells within this why a command failed. */
const REASON_MS = 15_000
/** A job that was killed is gone within this, or its node is stuck. */
const KILLED_MS = 60_000
const MAX_MISSES = 3
/** Between tries to find a job again. */
const SEEK_MS = 2000

export interface RunParts {
  cli: SlurmCli
  folders: JobFolders
  poller: QueuePoller
  submitter: Submitter
  objects: ObjectStore
  clock: Clock
}

interface Seen {
  code: number | null
  job: QueuedJob | null
}

export class JobRun {
  readonly #parts: RunParts
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  #startedAt: number | null = null
  #externalId: string | null = null
  /** Its command had not ended when it was told to. */
  #told = false
  #gaveUp = false
  /** Something has happened since the last rest began. */
  #woken = false
  #rouse: () => void = () => {}

  constructor(parts: RunParts, assignment: Assignment, context: LaunchContext) {
    this.#parts = parts
    this.#assignment = assignment
    this.#context = context
  }

  async run(): Promise<AttemptResult> {
    let place: JobPlace
    try {
      place = await this.#place()
    } catch (error) {
      if (this.#context.signal.aborted) return this.#stopped()
      const message = messageOf(error)
      return {
        state: "failed",
        startedAt: null,
        finishedAt: this.#parts.clock.now(),
        error: `could not submit the job: ${message}`,
        ...(isHopeless(message) && { retryable: false }),
      }
    }
    return this.#leave ? this.#stopped() : await this.#follow(place)
  }

  /** Somebody else goes on with it: the job is not ours to touch. */
  get #leave(): boolean {
    const { signal } = this.#context
    const reason = signal.reason as StopReason
    return signal.aborted && (reason === "shutdown" || reason === "lost")
  }

  // -- where it is ---------------------------------------------------------------------------------------------------------------

  async #place(): Promise<JobPlace> {
    const { folders, submitter, objects } = this.#parts
    const earlier = await folders.find(this.#assignment.attemptId)
    if (earlier === null) return await submitter.submit(this.#assignment)
    // Its files still hold all that was said: the log is written anew from them.
    await objects.deletePrefix(this.#assignment.prefix)
    if ((await folders.hasBegun(earlier)) || (await folders.exitCode(earlier)) !== null) return earlier
    if ((await this.#seek(earlier)) === null) await submitter.again(this.#assignment, earlier)
    return earlier
  }

  /** It may wait in a queue that cannot be read just now: to give up would let it run beside the next attempt. */
  async #seek(place: JobPlace): Promise<QueuedJob | null> {
    for (;;) {
      try {
        return await this.#parts.poller.find(place)
      } catch (error) {
        if (this.#context.signal.aborted) throw error
        await this.#rest(SEEK_MS)
      }
    }
  }

  // -- its life ------------------------------------------------------------------------------------------------------------------

  async #follow(place: JobPlace): Promise<AttemptResult> {
    const { folders, poller, objects, clock } = this.#parts
    const { attemptId, prefix, secrets } = this.#assignment
    const sink = openLog(objects, prefix, { secrets })
    const follower = new FileFollower(folders.task(place), sink)
    const watch = poller.watch(place, () => this.#wake())
    const release = this.#stopOnAbort(place, watch)
    let result: AttemptResult
    try {
      const seen = await this.#untilEnd(place, watch, follower)
      result = seen === null ? await this.#unfinished(sink) : await this.#result(place, seen, sink)
    } catch (error) {
      await sink.close().catch(() => {})
      result = { ...this.#base(), finishedAt: clock.now(), state: "failed", error: messageOf(error) }
    } finally {
      release()
      watch.close()
      await follower.close()
    }
    if (!this.#leave) await folders.remove(attemptId, place)
    return result
  }

  /** null: it is left to somebody else, or could not be stopped. */
  async #untilEnd(place: JobPlace, watch: Watch, follower: FileFollower): Promise<Seen | null> {
    const { folders, poller, clock } = this.#parts
    let look = LOOK_MS
    let since: number | null = null
    for (;;) {
      if (this.#leave || this.#gaveUp) return null
      const { job } = watch
      // Before the files: what it wrote came before its exit code.
      const code = await folders.exitCode(place)
      const live = code !== null || (job !== undefined && job !== null && isLive(job)) || (await this.#hasBegun(place))
      if (live) this.#begin(job ?? null, place)
      look = live && (await follower.copy()) ? LOOK_MS : Math.min(SLOW_LOOK_MS, look * 1.5)
      if (code === 0) return { code, job: job ?? null }
      const gone = job === null ? watch.misses >= MAX_MISSES : job !== undefined && isOver(job)
      if (code !== null || gone) {
        if (since === null) poller.soon()
        since ??= clock.now()
        const waited = clock.now() - since
        if (gone && (code !== null || this.#told || waited >= SETTLE_MS || tellsAll(job ?? null))) {
          await follower.copy()
          return { code, job: job ?? null }
        }
        if (code !== null && waited >= REASON_MS) return { code, job: job ?? null }
        look = LOOK_MS
      }
      await this.#rest(live || gone ? look : null)
    }
  }

  /** The queue may not have told yet. */
  async #hasBegun(place: JobPlace): Promise<boolean> {
    return this.#startedAt !== null || (await this.#parts.folders.hasBegun(place))
  }

  #begin(job: QueuedJob | null, place: JobPlace): void {
    if (this.#startedAt !== null) return
    this.#startedAt = this.#parts.clock.now()
    this.#externalId = job?.id ?? place.name
    this.#context.started({ at: this.#startedAt, externalId: this.#externalId })
  }

  /** Until the queue was looked at, something is to be done, or `ms` have passed. */
  #rest(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const cancel = ms === null ? null : this.#parts.clock.after(ms, () => this.#wake())
      this.#rouse = () => {
        this.#woken = false
        cancel?.()
        resolve()
      }
      if (this.#woken) this.#rouse()
    })
  }

  #wake(): void {
    this.#woken = true
    this.#rouse()
  }

  // -- its end -------------------------------------------------------------------------------------------------------------------

  #stopOnAbort(place: JobPlace, watch: Watch): () => void {
    const { clock, folders } = this.#parts
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      this.#wake()
      if (this.#leave) return
      void (async () => {
        // A folder that cannot be read says nothing: the job is stopped.
        if ((await folders.exitCode(place).catch(() => null)) !== null) return
        this.#told = true
        const asked = this.#cancel(watch, place, "TERM")
        cancelTimer = clock.after(this.#assignment.graceMs, () => {
          void asked.then(() => this.#cancel(watch, place, "KILL"))
          cancelTimer = clock.after(KILLED_MS, () => {
            this.#gaveUp = true
            this.#wake()
          })
        })
      })()
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  /** A job that waits is taken out of the queue; one that runs gets the signal, with all of its processes. */
  async #cancel(watch: Watch, place: JobPlace, signal: "TERM" | "KILL"): Promise<void> {
    const { cli, poller } = this.#parts
    const job = watch.job ?? (await poller.find(place).catch(() => null))
    if (job === null) return
    const call = (...options: string[]): Promise<unknown> => cli.call("scancel", [...options, job.id]).catch(() => {})
    if (isWaiting(job)) await call("--state=PENDING")
    if (signal === "TERM") await call("--full", "--signal=TERM")
    else {
      // `--full` with KILL would be the cluster's own way to end a job, which takes its time (KillWait).
      await call("--batch", "--signal=KILL")
      await call()
    }
    poller.soon()
  }

  #base(): Pick<AttemptResult, "startedAt" | "externalId"> {
    return { startedAt: this.#startedAt, ...(this.#externalId !== null && { externalId: this.#externalId }) }
  }

  async #unfinished(sink: LogSink): Promise<AttemptResult> {
    await sink.close()
    return this.#stopped()
  }

  async #result(place: JobPlace, { code, job }: Seen, sink: LogSink): Promise<AttemptResult> {
    const { objects, clock, folders } = this.#parts
    const { prefix, maxOutputBytes, node, secrets } = this.#assignment
    const { last } = await sink.close()
    const ending = endingOf(code, job, node.resources?.memoryBytes ?? 0)
    const exit = ending.exitCode === null ? {} : { exitCode: ending.exitCode }
    const base = { ...this.#base(), ...exit, finishedAt: clock.now() }
    if (this.#told) return { ...this.#stopped(), ...exit }
    if (ending.error !== null) return { ...base, state: ending.state, error: ending.error }
    const answer = await readAnswer(`${folders.task(place)}/${FILES.output}`, last, {
      objects,
      prefix,
      maxBytes: maxOutputBytes,
      secrets,
    })
    return "error" in answer
      ? { ...base, state: "failed", error: answer.error }
      : { ...base, state: "success", output: answer.output }
  }

  #stopped(): AttemptResult {
    const { signal } = this.#context
    const base = { ...this.#base(), finishedAt: this.#parts.clock.now() }
    return stoppedResult(signal.reason as StopReason, base, this.#assignment)
  }
}

/** States after which no exit code is to be waited for. */
const ABRUPT = new Set(["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE", "CANCELLED"])

const tellsAll = (job: QueuedJob | null): boolean => job !== null && ABRUPT.has(job.state)
