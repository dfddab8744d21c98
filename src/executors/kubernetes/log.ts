// Copies a pod's log to the attempt's log, over broken connections, without losing or repeating a line. Kubernetes merges
// stdout and stderr into one stream.

import type { Clock } from "../../core/model/ports.ts"
import type { LastLine } from "../../objects/logs/log-writer.ts"
import type { LogSink } from "../../objects/logs/log-sink.ts"
import { backoff, delay } from "../remote/retry.ts"
import { isStatus } from "./api-error.ts"
import type { Cluster, Query } from "./cluster.ts"
import { LogLines } from "./log-lines.ts"
import { CONTAINER, corePath } from "./shapes.ts"

/** Time between the end of a container's log and the cluster's report that the container has ended. */
const END_MS = 5000
/** Silence after which the connection counts as dead once the container has ended: its whole log is available then. */
const QUIET_MS = 10_000
/** Connections in a row without a byte, once the container has ended, after which the log is given up. */
const MAX_BROKEN = 8
const MAX_PAUSE_MS = 10_000

export interface PodLogOptions {
  cluster: Cluster
  clock: Clock
  namespace: string
  pod: string
  sink: LogSink
}

type StreamEnd = "complete" | "broken" | "gone"

export class PodLog {
  readonly pod: string
  readonly #options: PodLogOptions
  readonly #lines = new LogLines()
  readonly #containerEnded = new AbortController()
  readonly #abandoned = new AbortController()
  /** Resolves with true when the whole log was copied. Rejects when it cannot be stored. */
  readonly #copying: Promise<boolean>
  #closing: Promise<{ last: LastLine }> | null = null

  constructor(options: PodLogOptions) {
    this.#options = options
    this.pod = options.pod
    this.#copying = this.#copy()
    this.#copying.catch(() => {})
  }

  /** Copies the rest of the log of a container that has ended, for at most `ms`. Rejects when the log cannot be stored. */
  async finish(ms: number): Promise<{ complete: boolean; last: LastLine }> {
    this.#containerEnded.abort()
    const done = new AbortController()
    const timeout = delay(this.#options.clock, ms, done.signal).then(() => false)
    try {
      const complete = await Promise.race([this.#copying, timeout])
      return { complete, last: (await this.#close()).last }
    } finally {
      done.abort()
    }
  }

  /** Stops copying. Never rejects. */
  async close(): Promise<void> {
    await this.#close().catch(() => {})
  }

  #close(): Promise<{ last: LastLine }> {
    this.#abandoned.abort()
    this.#closing ??= this.#copying.catch(() => false).then(() => this.#options.sink.close())
    return this.#closing
  }

  async #copy(): Promise<boolean> {
    const { clock } = this.#options
    const [ended, abandoned] = [this.#containerEnded.signal, this.#abandoned.signal]
    let complete = false
    let broken = 0
    for (let pauses = 0; !abandoned.aborted; pauses++) {
      const endedBefore = ended.aborted
      const { end, received } = await this.#copyStream()
      // The pod was deleted; its log may have been complete before.
      if (end === "gone") return complete
      // A stream also ends without an error when a kubelet restarts: the log is complete only if the container has ended too.
      complete = end === "complete"
      if (complete) {
        await delay(clock, END_MS, AbortSignal.any([ended, abandoned]))
        if (ended.aborted) return true
      }
      if (received) pauses = 0
      broken = received || !endedBefore ? 0 : broken + 1
      if (broken >= MAX_BROKEN) return false
      const wake = ended.aborted ? abandoned : AbortSignal.any([ended, abandoned])
      await delay(clock, backoff(pauses, MAX_PAUSE_MS), wake)
    }
    return false
  }

  /** Copies what one connection delivers. */
  async #copyStream(): Promise<{ end: StreamEnd; received: boolean }> {
    const { cluster, clock, namespace, pod, sink } = this.#options
    const ended = this.#containerEnded.signal
    const quiet = new AbortController()
    let cancel = (): void => {}
    const restartTimer = (): void => {
      cancel()
      if (ended.aborted) cancel = clock.after(QUIET_MS, () => quiet.abort())
    }
    let received = false
    ended.addEventListener("abort", restartTimer)
    try {
      restartTimer()
      const path = `${corePath(namespace, "pods")}/${pod}/log`
      const signal = AbortSignal.any([this.#abandoned.signal, quiet.signal])
      const stream = await cluster
        .stream(path, { query: this.#query(), signal })
        .catch((error: unknown) => (isStatus(error, 404) ? ("gone" as const) : ("broken" as const)))
      if (typeof stream === "string") return { end: stream, received }
      const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
      for (;;) {
        // Only errors of the connection are caught here: a log that cannot be stored is not retried.
        const next = await chunks.next().catch(() => null)
        if (next === null) return { end: "broken", received }
        if (next.done === true) return { end: "complete", received }
        cancel()
        const text = this.#lines.read(next.value)
        if (text.length > 0) {
          received = true
          await sink.write("stdout", text)
        }
        restartTimer()
      }
    } finally {
      cancel()
      ended.removeEventListener("abort", restartTimer)
    }
  }

  #query(): Query {
    this.#lines.resume()
    const { since } = this.#lines
    return { container: CONTAINER, follow: "true", timestamps: "true", ...(since !== null && { sinceTime: since }) }
  }
}
