// Follows a pod's log to its end, over broken connections, without a line lost or twice. A pod's log is one stream: the cluster does not tell
// stdout and stderr apart.

import type { Clock } from "../../core/ports.ts"
import type { LogSink } from "../../objects/log-sink.ts"
import { isStatus } from "./api-error.ts"
import type { Cluster } from "./cluster.ts"
import { LogLines } from "./log-lines.ts"
import { backoff, delay } from "./persist.ts"
import { CONTAINER, corePath } from "./shapes.ts"

/** The cluster shows the end of a container within this after the end of its log. */
const END_MS = 5000
/** Broken connections in a row without a byte in between, once the container has ended. */
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
export const followLog = async ({ cluster, clock, namespace, pod, sink, ended, signal }: FollowOptions): Promise<boolean> => {
  const lines = new LogLines()
  const path = `${corePath(namespace, "pods")}/${pod}/log`
  let whole = false
  for (let broken = 0; !signal.aborted;) {
    lines.resume()
    const { since } = lines
    const query = { container: CONTAINER, follow: "true", timestamps: "true", ...(since !== null && { sinceTime: since }) }
    const read = await copy(cluster, path, { query, signal }, lines, sink)
    // The pod went after its log had come to its end.
    if (read.end === "gone") return whole
    whole = read.end === "whole"
    if (whole) {
      await delay(clock, END_MS, AbortSignal.any([ended, signal]))
      if (ended.aborted) return true
    }
    broken = read.fresh ? 0 : broken + 1
    if (ended.aborted && broken >= MAX_BROKEN) return false
    await delay(clock, backoff(Math.max(0, broken - 1), MAX_PAUSE_MS), signal)
  }
  return false
}

const copy = async (
  cluster: Cluster,
  path: string,
  options: { query: { [name: string]: string }; signal: AbortSignal },
  lines: LogLines,
  sink: LogSink,
): Promise<{ end: "whole" | "broken" | "gone"; fresh: boolean }> => {
  let fresh = false
  let chunks: AsyncIterator<Buffer>
  try {
    chunks = ((await cluster.stream(path, options)) as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  } catch (error) {
    return { end: isStatus(error, 404) ? "gone" : "broken", fresh }
  }
  for (;;) {
    // Only a broken connection is tried again, not a log that cannot be stored.
    const next = await chunks.next().catch(() => null)
    if (next === null) return { end: "broken", fresh }
    if (next.done === true) return { end: "whole", fresh }
    const text = lines.read(next.value)
    if (text.length === 0) continue
    fresh = true
    await sink.write("stdout", text)
  }
}
