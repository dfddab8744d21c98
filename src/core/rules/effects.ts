// What the end of a row does to others: the edges to count down, and how a run ends. Pure; the stores apply it to the rows
// whose fence held.

import { gateLane, type RunLaneKey } from "../routing/lanes.ts"
import type { RowKind } from "../model/row.ts"
import type { RunStatus, UpstreamEnd } from "../model/status.ts"
import type { CompiledWorkflow } from "../model/workflow.ts"

/** One upstream of (node, path) in this run has ended. */
export interface Edge {
  node: number
  path: string
  end: UpstreamEnd
  /** Move the row to this lane: its plain rule is not met any more, so the gate must say what becomes of it. */
  reroute: string | null
}

const fails = (end: UpstreamEnd): boolean => end === "failed" || end === "unmet"

/**
 * Edges from an ended row. Instances of a fan-out have none: they count down their container (`parentPath`), and the container
 * has the edges when it ends.
 */
export const edgesOf = (
  workflow: CompiledWorkflow,
  run: RunLaneKey,
  row: { node: number; path: string; kind: RowKind },
  end: UpstreamEnd,
): Edge[] => {
  const node = workflow.nodes[row.node]!
  if (node.fan !== undefined && row.kind !== "fan") return []
  return node.downstream.map((below) => {
    const target = workflow.nodes[below]!
    return { node: below, path: row.path, end, reroute: fails(end) && !target.gated ? gateLane(run) : null }
  })
}

/** How a run ends once nothing of it is open. */
export const closeStatus = (run: {
  cancelling: "cancel" | "timeout" | null
  failed: number
}): Extract<RunStatus, "success" | "failed" | "cancelled"> =>
  run.cancelling === "cancel" ? "cancelled" : run.cancelling === "timeout" || run.failed > 0 ? "failed" : "success"
