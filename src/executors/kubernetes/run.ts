// One attempt as a Job of the cluster: create or find again → wait → follow its log while it runs → end. The shared watch says what has become
// of it; this says what follows from that.

import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Gone, watchExec } from "../exec/exec.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import { stoppedResult } from "../stopped.ts"
import { inWords, isHopeless, isPassing } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { answerOf } from "./answer.ts"
import type { Request } from "./job.ts"
import type { JobRequests } from "./job-requests.ts"
import { followLog } from "./log.ts"
import type { NamespaceWatch, Sight } from "./namespace-watch.ts"
import { delay } from "./persist.ts"
import { jobName } from "./shapes.ts"
import { endOf, goneOf, hasBegun, isSettled } from "./attempt-outcome.ts"
import { type Ending, isOver, type Standing, standingOf } from "./classify.ts"

/** Troubles that may pass (a registry that is busy, a Secret that is not there yet) get this long. */
const STUCK_MS = 30_000
/** The cluster tells within this why a pod went. */
const SETTLE_MS = 5000
/** A pod that was told to end is gone within its grace and this, or its node is. */
const KILLED_MS = 60_000
/** The log of a container that has ended comes to its end within this; its output may stand there. */
const LOG_MS = 300_000
/** One that nobody needs so much, from a node that may be gone. */
const LOST_LOG_MS = 30_000

export interface RunParts {
  cluster: Cluster
  requests: JobRequests
  objects: ObjectStore
  clock: Clock
}

export class JobRun {
  readonly #parts: RunParts
  readonly #space: NamespaceWatch
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  readonly #request: Request
  /** Its container runs `ork exec`. */
  readonly #exec: boolean
  readonly #sight: Sight
  #startedAt: number | null = null
  /** It had not ended when it was told to. */
  #told = false
  #gaveUp = false
  #found = false
  #why: string | null = null
  #woken = false
  #rouse: () => void = () => {}

  constructor(
    parts: RunParts,
    space: NamespaceWatch,
    assignment: Assignment,
    context: LaunchContext,
    made: { request: Request; exec: boolean },
  ) {
    this.#parts = parts
    this.#space = space
    this.#assignment = assignment
    this.#context = context
    this.#request = made.request
    this.#exec = made.exec
    this.#sight = space.track(assignment.attemptId, () => this.#wake())
  }

  async run(): Promise<AttemptResult> {
    try {
      return (await this.#make()) ?? (this.#exec ? await this.#watch() : await this.#follow())
    } finally {
      this.#space.untrack(this.#assignment.attemptId, this.#sight)
    }
  }

  /** Somebody else goes on with it: the Job is not ours to touch. */
  get #leave(): boolean {
    const { signal } = this.#context
    const reason = signal.reason as StopReason
    return signal.aborted && (reason === "shutdown" || reason === "lost")
  }

  // -- its beginning -------------------------------------------------------------------------------------------------------------

  /** null: it is there. */
  async #make(): Promise<AttemptResult | null> {
    const { requests } = this.#parts
    const { signal } = this.#context
    const { attemptId } = this.#assignment
    const place = { namespace: this.#space.name, assignment: this.#assignment, sight: this.#sight }
    try {
      await Promise.race([this.#space.ready(), aborted(signal)])
      if (this.#leave) return this.#stopped()
      if (signal.aborted) return (await requests.find(place)) === null ? this.#stopped() : null
      this.#found = await requests.make(place, this.#request, signal)
      return null
    } catch (error) {
      if (this.#leave) return this.#stopped()
      if (signal.aborted && this.#sight.job.object !== null) return null
      if (isPassing(error) || this.#sight.job.object !== null) {
        // It may be there all the same.
        await requests.remove(this.#space.name, attemptId, AbortSignal.abort()).catch(() => {})
      }
      if (signal.aborted) return this.#stopped()
      return {
        state: "failed",
        startedAt: null,
        finishedAt: this.#parts.clock.now(),
        error: `could not create the job: ${inWords(error)}`,
        ...(isHopeless(error) && { retryable: false }),
      }
    }
  }

  // -- its life ------------------------------------------------------------------------------------------------------------------

  async #follow(): Promise<AttemptResult> {
    const { objects } = this.#parts
    const { prefix, secrets } = this.#assignment
    const release = this.#stopOnAbort()
    const done = new AbortController()
    const ended = new AbortController()
    let sink: LogSink | null = null
    let log: Promise<boolean> = Promise.resolve(true)
    try {
      const ending = await this.#untilEnd(async (pod) => {
        // The pod still holds all that was said: the log is written anew from it.
        if (this.#found) await objects.deletePrefix(prefix)
        sink = openLog(objects, prefix, { secrets })
        log = this.#log(pod, sink, ended.signal, done.signal)
        log.catch(() => {})
      })
      ended.abort()
      const whole = this.#leave ? false : await this.#wholeLog(log, ending?.state === "success" ? LOG_MS : LOST_LOG_MS)
      done.abort()
      await log.catch(() => false)
      await this.#tidy()
      const closed = (await (sink as LogSink | null)?.close()) ?? null
      sink = null
      // A success that came first stays one, if its output could still be had.
      const stopped = this.#told && !(ending?.state === "success" && ending.certain && whole)
      if (ending === null || stopped) return this.#stopped(ending)
      const answer = await answerOf(ending, closed, { objects, assignment: this.#assignment, whole })
      return { ...this.#base(ending), ...answer }
    } catch (error) {
      if (!this.#leave) await this.#remove()
      return { ...this.#base(null), state: "failed", error: messageOf(error) }
    } finally {
      release()
      done.abort()
      await (sink as LogSink | null)?.close().catch(() => {})
    }
  }

  #log(pod: string, sink: LogSink, ended: AbortSignal, signal: AbortSignal): Promise<boolean> {
    const { cluster, clock } = this.#parts
    return followLog({ cluster, clock, namespace: this.#space.name, pod, sink, ended, signal })
  }

  async #wholeLog(log: Promise<boolean>, ms: number): Promise<boolean> {
    const late = new AbortController()
    const timer = delay(this.#parts.clock, ms, late.signal).then(() => false)
    try {
      return await Promise.race([log, timer])
    } finally {
      late.abort()
    }
  }

  /** `ork exec` writes log, output and end to the object store; the cluster says when it is gone. */
  async #watch(): Promise<AttemptResult> {
    const { objects, clock } = this.#parts
    const release = this.#stopOnAbort()
    const left = Promise.withResolvers<AttemptResult>()
    let over = false
    const gone = this.#untilEnd(async () => {}).then(async (ending): Promise<Gone> => {
      over = true
      await this.#tidy()
      if (this.#leave) left.resolve(this.#stopped())
      return goneOf(ending)
    })
    const { signal } = this.#context
    // The cluster tells of its start.
    const context: LaunchContext = { signal, started: () => {}, progress: (update) => this.#context.progress(update) }
    try {
      const watched = watchExec({ objects, clock, assignment: this.#assignment, context, gone, externalId: this.#externalId })
      const result = await Promise.race([watched, left.promise])
      if (!over && result.state === "lost" && !this.#leave) await this.#remove()
      return { ...result, ...this.#waited() }
    } finally {
      release()
      this.#gaveUp = true
      this.#wake()
    }
  }

  /** null: it is left to somebody else, or could not be stopped. */
  async #untilEnd(begun: (pod: string) => Promise<void>): Promise<Ending | null> {
    const { clock } = this.#parts
    const { node } = this.#assignment
    let following = false
    let certain: Ending | null = null
    let trouble = null as { phase: Standing["phase"]; since: number; words: string } | null
    for (;;) {
      if (this.#leave || this.#gaveUp) return null
      const { job, pod } = this.#sight
      const standing = standingOf(job, pod, node.resources?.memoryBytes ?? 0)
      if (hasBegun(standing)) {
        this.#begin()
        if (!following && pod.object !== null && !pod.gone) {
          following = true
          await begun(pod.object.metadata.name)
        }
      }
      if (standing.phase === "waiting") this.#why = standing.why ?? this.#why
      const ending = endOf(standing)
      if (ending?.certain === true) certain = ending
      const removed = job.gone && (pod.object === null || pod.gone || standing.phase === "ended")
      if (this.#told) {
        if (removed) return certain ?? ending
        await this.#rest(null)
        continue
      }
      if (standing.phase === "ended") return standing.ending
      if (ending === null) {
        trouble = null
        await this.#rest(null)
        continue
      }
      if (trouble?.phase !== standing.phase) trouble = { phase: standing.phase, since: clock.now(), words: "" }
      // The first words of a trouble may say more than what it is called later.
      const words = ending.error ?? ""
      if (words.length > trouble.words.length) trouble.words = words
      const left = trouble.since + this.#patience(standing) - clock.now()
      if (left <= 0) return await this.#givenUp({ ...ending, error: trouble.words || null })
      await this.#rest(left)
    }
  }

  #patience(standing: Standing): number {
    if (standing.phase === "stuck") return standing.hopeless ? 0 : STUCK_MS
    const { object, gone } = this.#sight.pod
    const over = object === null || gone || isOver(object)
    return over ? SETTLE_MS : this.#assignment.graceMs + KILLED_MS
  }

  /** What is given up is taken away, so that it does not begin later: a Job may be suspended, and make a new pod when it goes on. */
  async #givenUp(ending: Ending): Promise<Ending> {
    const { object, gone } = this.#sight.job
    if (object !== null && !gone && !isSettled(object)) await this.#remove()
    return ending
  }

  /** Containers that others have put into the pod would keep it, and its Job, for ever. */
  async #tidy(): Promise<void> {
    if (this.#leave || this.#told) return
    const others = this.#sight.pod.object?.status?.containerStatuses ?? []
    if (others.length > 1 && others.some(({ state }) => state?.terminated === undefined)) await this.#remove()
  }

  #remove(): Promise<unknown> {
    return this.#parts.requests.remove(this.#space.name, this.#assignment.attemptId).catch(() => {})
  }

  get #externalId(): string {
    return `${this.#space.name}/${jobName(this.#assignment.attemptId)}`
  }

  #begin(): void {
    if (this.#startedAt !== null) return
    this.#startedAt = this.#parts.clock.now()
    this.#context.started({ at: this.#startedAt, externalId: this.#externalId })
  }

  /** Until the cluster shows something new, something is to be done, or `ms` have passed. */
  #rest(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const cancel = ms === null ? null : this.#parts.clock.after(ms, () => this.#wake())
      this.#rouse = () => {
        this.#woken = false
        this.#rouse = () => {}
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

  #stopOnAbort(): () => void {
    const { clock, requests } = this.#parts
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      if (!this.#leave) {
        this.#told = true
        void this.#ask(requests)
        cancelTimer = clock.after(this.#assignment.graceMs + KILLED_MS, () => {
          this.#gaveUp = true
          this.#wake()
        })
      }
      this.#wake()
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  async #ask(requests: JobRequests): Promise<void> {
    const { attemptId } = this.#assignment
    if (this.#startedAt === null && this.#context.signal.reason === "timeout") {
      const about = this.#sight.pod.object?.metadata.name ?? jobName(attemptId)
      this.#why = (await requests.complaint(this.#space.name, about)) ?? this.#why
    }
    const there = await requests.remove(this.#space.name, attemptId).catch(() => true)
    if (there) return
    this.#sight.job.remove(null)
    this.#sight.pod.remove(null)
    this.#wake()
  }

  #base(ending: Ending | null): Omit<AttemptResult, "state"> {
    return {
      startedAt: this.#startedAt,
      finishedAt: this.#parts.clock.now(),
      externalId: this.#externalId,
      ...(ending !== null && ending.exitCode !== null && { exitCode: ending.exitCode }),
    }
  }

  #stopped(ending: Ending | null = null): AttemptResult {
    const base = { ...this.#base(ending), ...this.#waited() }
    return stoppedResult(this.#context.signal.reason as StopReason, base, this.#assignment)
  }

  #waited(): Pick<AttemptResult, "waitedFor"> {
    return this.#startedAt === null && this.#why !== null ? { waitedFor: this.#why } : {}
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve(), { once: true })
  })
