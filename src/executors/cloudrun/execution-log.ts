// The log of one attempt that any image runs: what the shared reader finds of it goes to the attempt's log, with its own times; the last line
// of stdout by those times may be its output. What cannot be read is told in the log, and harms nothing else.

import { messageOf } from "../../core/model/error-message.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, StopReason } from "../executor.ts"
import { type Answer, NOTHING, textAnswer } from "../output.ts"
import { Bell } from "../remote/pacing.ts"
import { type ApiError, isPassing, logInWords } from "./api-error.ts"
import type { EntryLine } from "./log-entries.ts"
import type { LogReader } from "./log-reader.ts"
import type { Follow } from "./project-reader.ts"
import { type ExecutionName, partsOf } from "./shapes.ts"

/** Lines reach Logging, and are found there, within this after they were written. */
export const LATE_MS = 10_000
/** For a service that cannot be reached, after the end of the execution. */
export const GRACE_MS = 60_000
/** For a log that is longer than can be read so fast. */
export const LONG_MS = 600_000

export interface ExecutionLogParts {
  reader: Pick<LogReader, "follow">
  objects: ObjectStore
  clock: Clock
}

export interface Written {
  name: ExecutionName
  /** Since when it may exist. */
  since: number
  /** Another server has read it before. */
  found: boolean
  /** Only what this one of its containers says; null: all of them. */
  container: string | null
  /** Where people read it. */
  link: string
}

export class ExecutionLog {
  readonly #parts: ExecutionLogParts
  readonly #assignment: Assignment
  readonly #source: Written
  readonly #signal: AbortSignal
  readonly #bell: Bell
  readonly #follow: Follow
  #sink: Promise<LogSink> | null = null
  /** One after the other, and none once it is closed. */
  #writing: Promise<void> = Promise.resolve()
  #closed = false
  #last: EntryLine | null = null
  #refused = false
  /** It cannot be stored. */
  #broken: Error | null = null

  constructor(parts: ExecutionLogParts, assignment: Assignment, signal: AbortSignal, source: Written) {
    this.#parts = parts
    this.#assignment = assignment
    this.#source = source
    this.#signal = signal
    this.#bell = new Bell(parts.clock)
    const { project, region, execution } = partsOf(source.name)
    this.#follow = parts.reader.follow({
      project,
      region,
      execution,
      since: source.since,
      take: (lines) => this.#take(lines),
      told: () => this.#told(),
    })
  }

  /**
   * Waits until all of it was had, or as much as can be; gives the output that is in it. `endedAt`: of the execution, by Google's clock,
   * if that is known. `told`: to stop; what is there is enough then. null: somebody else goes on with it. Rejects when it cannot
   * be stored.
   */
  async end(endedAt: number | null, told: boolean): Promise<Answer | null> {
    const ring = (): void => this.#bell.ring()
    this.#signal.addEventListener("abort", ring)
    try {
      const whole = await this.#whole(endedAt, told)
      if (whole !== true) return whole
      const { objects } = this.#parts
      const { prefix, maxOutputBytes: maxBytes, secrets } = this.#assignment
      return this.#last === null
        ? NOTHING
        : await textAnswer(lastLineOf(this.#last.text), { objects, prefix, maxBytes, secrets })
    } finally {
      this.#signal.removeEventListener("abort", ring)
    }
  }

  /** No more of it is read. Rejects when it cannot be stored. */
  async close(): Promise<void> {
    this.#follow.close()
    await this.#writing
    if (this.#closed) return
    this.#closed = true
    await (await this.#sink)?.close()
  }

  /** true: all of it. */
  async #whole(completed: number | null, told: boolean): Promise<Answer | null | true> {
    const { clock } = this.#parts
    const began = clock.now()
    const endedAt = completed ?? this.#follow.now()
    for (;;) {
      if (this.#broken !== null) throw this.#broken
      const reason = this.#signal.aborted ? (this.#signal.reason as StopReason) : null
      if (reason === "shutdown" || reason === "lost") return null
      const { readAt, receivedAt, problem } = this.#follow
      const needed = told ? endedAt : Math.max(endedAt, receivedAt ?? 0) + LATE_MS
      if (readAt !== null && readAt >= needed) return true
      const limit = problem === null && reason === null ? LONG_MS : GRACE_MS
      const left = limit - (clock.now() - began)
      if (left <= 0 || (problem !== null && (told || !isPassing(problem)))) return await this.#givenUp(problem)
      this.#follow.within(Math.max(0, needed - this.#follow.now()))
      await this.#bell.wait(left)
    }
  }

  async #givenUp(problem: ApiError | null): Promise<Answer> {
    const why = problem === null ? "Cloud Logging gives it too slowly" : logInWords(problem, this.#source.name)
    if (!this.#refused) await this.#note(`its log was not read to its end, and its output is not known: ${why}`)
    return NOTHING
  }

  #told(): void {
    const { problem } = this.#follow
    if (problem !== null && !isPassing(problem) && !this.#refused) {
      this.#refused = true
      void this.#note(`its log cannot be read, and its output is not known: ${logInWords(problem, this.#source.name)}`)
    }
    this.#bell.ring()
  }

  #note(text: string): Promise<void> {
    return this.#write((sink) => sink.write("stderr", `ork: ${text}; it is at ${this.#source.link}\n`))
  }

  #take(lines: EntryLine[]): Promise<void> {
    const { container } = this.#source
    return this.#write(async (sink) => {
      for (const line of lines) {
        const { stream, text, at, order } = line
        if (container !== null && line.container !== null && line.container !== container) continue
        await sink.write(stream, text.endsWith("\n") ? text : `${text}\n`, at)
        // One that was found late does not come last.
        if (stream === "stdout" && text.trim() !== "" && order > (this.#last?.order ?? "")) this.#last = line
      }
    })
  }

  #write(work: (sink: LogSink) => Promise<void>): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      if (this.#closed) return
      try {
        await work(await this.#open())
      } catch (error) {
        this.#broken ??= new Error(`its log cannot be stored: ${messageOf(error)}`, { cause: error })
      }
    })
    return this.#writing
  }

  /** Logging still holds all that was said: the log is written anew from it. */
  #open(): Promise<LogSink> {
    const { objects } = this.#parts
    const { prefix, secrets } = this.#assignment
    const begin = async (): Promise<LogSink> => {
      if (this.#source.found) await objects.deletePrefix(prefix)
      return openLog(objects, prefix, { secrets })
    }
    this.#sink ??= begin()
    return this.#sink
  }
}

/** An entry may hold several: a stack trace is one. */
const lastLineOf = (text: string): Buffer => {
  const trimmed = text.trimEnd()
  return Buffer.from(trimmed.slice(trimmed.lastIndexOf("\n") + 1))
}
