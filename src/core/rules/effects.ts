// Effects of a finished row on other rows: the edges to count down, and the status of a run that closes. The stores apply them to
// rows whose fence held.

import { gateLane, type RunLaneKey } from "../routing/lanes.ts"
import type { RowKind } from "../model/row.ts"
import type { RunStatus, UpstreamEnd } from "../model/status.ts"
import { isInstance } from "../model/task-path.ts"
import type { CompiledWorkflow } from "../model/workflow.ts"

/** The outcome of one upstream, for the row of (node, path) in the same run. */
export interface Edge {
  node: number
  path: string
  end: UpstreamEnd
  /** Lane to move the row to: its rule can no longer be met without the gate's decision. null: the row stays in its lane. */
  reroute: string | null
}

const countsAsFailure = (end: UpstreamEnd): boolean => end === "failed" || end === "unmet"

/**
 * Returns the edges of a finished row. Instances of a fan-out have none: they count down their container, which has the edges when
 * it finishes.
 */
export const edgesOf = (
  workflow: CompiledWorkflow,
  run: RunLaneKey,
  row: { node: number; path: string; kind: RowKind },
  end: UpstreamEnd,
): Edge[] => {
  const node = workflow.nodes[row.node]!
  if (isInstance(node, row.kind)) return []
  return node.downstream.map((below) => {
    const target = workflow.nodes[below]!
    return { node: below, path: row.path, end, reroute: countsAsFailure(end) && !target.gated ? gateLane(run) : null }
  })
}

/** Returns the final status of a run whose tasks have all finished. */
export const closeStatus = (run: {
  cancelling: "cancel" | "timeout" | null
  failed: number
}): Extract<RunStatus, "success" | "failed" | "cancelled"> =>
  run.cancelling === "cancel" ? "cancelled" : run.cancelling === "timeout" || run.failed > 0 ? "failed" : "success"
