// Follows a pod's log to its end, over broken connections, without a line lost or twice. A pod's log is one stream: the cluster does not tell
// stdout and stderr apart.

import type { Clock } from "../../core/model/ports.ts"
import type { LogSink } from "../../objects/logs/log-sink.ts"
import { isStatus } from "./api-error.ts"
import type { Cluster, Query } from "./cluster.ts"
import { LogLines } from "./log-lines.ts"
import { backoff, delay } from "./persist.ts"
import { CONTAINER, corePath } from "./shapes.ts"

/** The cluster shows the end of a container within this after the end of its log. */
const END_MS = 5000
/** The log of a container that has ended is all there: a connection that gives none of it for so long is dead. */
const QUIET_MS = 10_000
/** Connections in a row without a byte, once the container has ended. */
const MAX_BROKEN = 8
const MAX_PAUSE_MS = 10_000

export interface FollowOptions {
  cluster: Cluster
  clock: Clock
  namespace: string
  pod: string
  sink: LogSink
  /** Aborted with the container's end. */
  ended: AbortSignal
  /** Nobody wants it any more. */
  signal: AbortSignal
}

/** Resolves when all of it was written; false: the rest cannot be had. Rejects only when it cannot be stored. */
export const followLog = async (options: FollowOptions): Promise<boolean> => {
  const { clock, ended, signal } = options
  const lines = new LogLines()
  let whole = false
  let broken = 0
  for (let pauses = 0; !signal.aborted; pauses++) {
    lines.resume()
    const { since } = lines
    const query = { container: CONTAINER, follow: "true", timestamps: "true", ...(since !== null && { sinceTime: since }) }
    const late = ended.aborted
    const read = await copy(options, query, lines)
    // The pod went after its log had come to its end.
    if (read.end === "gone") return whole
    // A stream also ends well when a kubelet restarts or cannot follow: it is the end only when the container has ended too.
    whole = read.end === "whole"
    if (whole) {
      await delay(clock, END_MS, AbortSignal.any([ended, signal]))
      if (ended.aborted) return true
    }
    if (read.fresh) pauses = 0
    broken = read.fresh || !late ? 0 : broken + 1
    if (broken >= MAX_BROKEN) return false
    const wake = ended.aborted ? signal : AbortSignal.any([ended, signal])
    await delay(clock, backoff(pauses, MAX_PAUSE_MS), wake)
  }
  return false
}

const copy = async (
  { cluster, clock, namespace, pod, sink, ended, signal }: FollowOptions,
  query: Query,
  lines: LogLines,
): Promise<{ end: "whole" | "broken" | "gone"; fresh: boolean }> => {
  const quiet = new AbortController()
  let cancel = (): void => {}
  const wait = (): void => {
    cancel()
    if (ended.aborted) cancel = clock.after(QUIET_MS, () => quiet.abort())
  }
  let fresh = false
  ended.addEventListener("abort", wait)
  try {
    wait()
    const path = `${corePath(namespace, "pods")}/${pod}/log`
    const connection = AbortSignal.any([signal, quiet.signal])
    const stream = await cluster
      .stream(path, { query, signal: connection })
      .catch((error: unknown) => (isStatus(error, 404) ? ("gone" as const) : ("broken" as const)))
    if (typeof stream === "string") return { end: stream, fresh }
    const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    for (;;) {
      // Only a broken connection is tried again, not a log that cannot be stored.
      const next = await chunks.next().catch(() => null)
      if (next === null) return { end: "broken", fresh }
      if (next.done === true) return { end: "whole", fresh }
      cancel()
      const text = lines.read(next.value)
      if (text.length > 0) {
        fresh = true
        await sink.write("stdout", text)
      }
      wait()
    }
  } finally {
    cancel()
    ended.removeEventListener("abort", wait)
  }
}
