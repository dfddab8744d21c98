// The log of one execution whose container does not run `ork exec`: lines of the shared reader are stored in the attempt's log
// with their own times, and the last line of stdout by time may be the output. A log that cannot be read leaves a note in the
// attempt's log.

import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, StopReason } from "../executor.ts"
import { NO_OUTPUT, outputFromText, type OutputResult, outputTarget } from "../output.ts"
import { WakeSignal } from "../remote/wake-signal.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { type GoogleApiError, describeLogError, isTransient } from "./api-error.ts"
import type { EntryLine } from "./log-entries.ts"
import type { LogFollow, LogReader } from "./log-reader.ts"
import { type ExecutionName, partsOf } from "./shapes.ts"

/** Time within which a written line is visible in Cloud Logging. */
export const VISIBLE_MS = 10_000
/** Time that an unavailable service gets after the end of the execution. */
const UNAVAILABLE_MS = 60_000
/** Time for the rest of a long log after the end of the execution. */
export const MAX_READ_MS = 600_000

export interface ExecutionLogParts {
  reader: Pick<LogReader, "follow">
  objects: ObjectStore
  clock: Clock
}

export interface LogSource {
  name: ExecutionName
  /** Time since when the execution may exist. */
  since: number
  /** True when another server may have stored parts of the log. */
  found: boolean
  /** The container whose lines are stored; null for all of them. */
  container: string | null
  /** Address of the log in Google's console. */
  link: string
}

export class ExecutionLog {
  readonly #parts: ExecutionLogParts
  readonly #assignment: Assignment
  readonly #source: LogSource
  readonly #signal: AbortSignal
  readonly #changes: WakeSignal
  readonly #follow: LogFollow
  #sink: Promise<LogSink> | null = null
  /** The last write. Writes run one after the other, and none after `close`. */
  #writing: Promise<void> = Promise.resolve()
  #closed = false
  #last: EntryLine | null = null
  /** True once a note about a permanent error was written. */
  #rejected = false
  /** Error of a log that cannot be stored. */
  #storeError: Error | null = null

  constructor(parts: ExecutionLogParts, assignment: Assignment, signal: AbortSignal, source: LogSource) {
    this.#parts = parts
    this.#assignment = assignment
    this.#source = source
    this.#signal = signal
    this.#changes = new WakeSignal(parts.clock)
    const { project, region, execution } = partsOf(source.name)
    this.#follow = parts.reader.follow({
      project,
      region,
      execution,
      since: source.since,
      onLines: (lines) => this.#store(lines),
      onRead: () => this.#onRead(),
    })
  }

  /**
   * Waits until the log is complete, or as much of it as can be read, and returns the output in it. `endedAt`: end of the
   * execution by Google's clock, null when not known. `stopped`: the attempt was stopped, so that lines that arrive late are
   * not waited for. Resolves with null when another process continues with the attempt. Rejects when the log cannot be stored.
   */
  async finish(endedAt: number | null, stopped: boolean): Promise<OutputResult | null> {
    const onAbort = (): void => this.#changes.wake()
    this.#signal.addEventListener("abort", onAbort)
    try {
      switch (await this.#untilComplete(endedAt, stopped)) {
        case "handed over":
          return null
        case "incomplete":
          return NO_OUTPUT
        case "complete":
          return await this.#output()
      }
    } finally {
      this.#signal.removeEventListener("abort", onAbort)
    }
  }

  async #output(): Promise<OutputResult> {
    if (this.#last === null) return NO_OUTPUT
    return await outputFromText(lastLineOf(this.#last.text), outputTarget(this.#parts.objects, this.#assignment))
  }

  /** Stops reading. Rejects when the log cannot be stored. */
  async close(): Promise<void> {
    this.#follow.close()
    await this.#writing
    if (this.#closed) return
    this.#closed = true
    await (await this.#sink)?.close()
  }

  async #untilComplete(completed: number | null, stopped: boolean): Promise<"complete" | "incomplete" | "handed over"> {
    const { clock } = this.#parts
    const began = clock.monotonic()
    const endedAt = completed ?? this.#follow.now()
    for (;;) {
      if (this.#storeError !== null) throw this.#storeError
      const reason = this.#signal.aborted ? (this.#signal.reason as StopReason) : null
      if (reason === "shutdown" || reason === "lost") return "handed over"
      const { readAt, receivedAt, problem } = this.#follow
      const needed = stopped ? endedAt : Math.max(endedAt, receivedAt ?? 0) + VISIBLE_MS
      if (readAt !== null && readAt >= needed) return "complete"
      const limit = problem === null && reason === null ? MAX_READ_MS : UNAVAILABLE_MS
      const left = limit - (clock.monotonic() - began)
      if (left <= 0 || (problem !== null && (stopped || !isTransient(problem)))) {
        await this.#noteIncomplete(problem)
        return "incomplete"
      }
      this.#follow.readWithin(Math.max(0, needed - this.#follow.now()))
      await this.#changes.wait(left)
    }
  }

  async #noteIncomplete(problem: GoogleApiError | null): Promise<void> {
    if (this.#rejected) return
    const reason = problem === null ? "Cloud Logging returns it too slowly" : describeLogError(problem, this.#source.name)
    await this.#note(`its log was not read to its end, and its output is not known: ${reason}`)
  }

  #onRead(): void {
    const { problem } = this.#follow
    if (problem !== null && !isTransient(problem) && !this.#rejected) {
      this.#rejected = true
      void this.#note(`its log cannot be read, and its output is not known: ${describeLogError(problem, this.#source.name)}`)
    }
    this.#changes.wake()
  }

  #note(text: string): Promise<void> {
    return this.#write((sink) => sink.write("stderr", `ork: ${text}; it is at ${this.#source.link}\n`))
  }

  #store(lines: EntryLine[]): Promise<void> {
    const { container } = this.#source
    return this.#write(async (sink) => {
      for (const line of lines) {
        const { stream, text, at, order } = line
        if (container !== null && line.container !== null && line.container !== container) continue
        await sink.write(stream, text.endsWith("\n") ? text : `${text}\n`, at)
        // Lines may arrive out of order.
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
        this.#storeError ??= new Error(`its log cannot be stored: ${messageOf(error)}`, { cause: error })
      }
    })
    return this.#writing
  }

  /** Opens the attempt's log. It is written again from the start, because Cloud Logging still has all lines. */
  #open(): Promise<LogSink> {
    const { objects } = this.#parts
    const { prefix } = this.#assignment
    const open = async (): Promise<LogSink> => {
      if (this.#source.found) await objects.deletePrefix(prefix)
      return openLog(objects, prefix, this.#assignment)
    }
    this.#sink ??= open()
    return this.#sink
  }
}

/** Returns the last line of an entry, which may have several, such as a stack trace. */
const lastLineOf = (text: string): Buffer => {
  const trimmed = text.trimEnd()
  return Buffer.from(trimmed.slice(trimmed.lastIndexOf("\n") + 1))
}
