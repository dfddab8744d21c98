// Changes in place of one that the store cannot write because of its content: its task fails, and other tasks go on.

import type { Change } from "../../core/model/change.ts"

/** A change that returns a row has no content that a store could reject. */
export type ContentChange = Exclude<Change, { kind: "release" | "requeue" }>

/**
 * Returns the changes to commit instead, in order; the fence lets the first legal one take effect. None: the change only informs, and
 * is dropped.
 */
export const substitutesOf = (change: ContentChange, reason: string, now: number): Change[] => {
  const { row, attemptId, shardKey } = change
  const fence = { row, attemptId, ...(shardKey !== undefined && { shardKey }) }
  const error = `Ork could not store its result: ${reason}`
  const fail: Change = { ...fence, kind: "fail", error }
  const finish = (startedAt: number | null): Change => ({
    ...fence,
    kind: "finish",
    status: "failed",
    result: { state: "failed", startedAt, finishedAt: now, error },
  })
  switch (change.kind) {
    case "started":
    case "progress":
      return []
    case "finish":
    case "retry":
      return [finish(change.result.startedAt)]
    case "wait":
      return [finish(null), fail]
    case "expand":
    case "open_group":
      // A container with children cannot fail before they have ended: the gate continues after them.
      return change.offset === 0 ? [fail] : [{ ...fence, kind: "release" }]
    case "gather":
      return [{ ...fence, kind: "gather", status: "failed", output: { inline: null }, error }]
    case "skip":
    case "fail":
    case "enqueue":
    case "reuse":
      return [fail]
    default:
      return change satisfies never
  }
}
