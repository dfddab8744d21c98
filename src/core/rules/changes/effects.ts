// Effects of a finished row on other rows: the edges to count down, the counters of its run and its container, and the status of a
// run that closes. The stores apply them to rows whose fence held.

import { gateLane, type RunLaneKey } from "../../routing/lanes.ts"
import type { RowKind } from "../../model/row.ts"
import { type RunStatus, type SkipReason, type FinalStatus, type UpstreamOutcome, upstreamOutcome } from "../../model/status.ts"
import { isInstance } from "../../model/task-path.ts"
import type { CompiledWorkflow, Node } from "../../model/workflow.ts"

/** The outcome of one upstream, for the row of (node, path) in the same run. */
export interface Edge {
  node: number
  path: string
  outcome: UpstreamOutcome
  /** Lane to move the row to: its rule can no longer be met without the gate's decision. null: the row stays in its lane. */
  reroute: string | null
}

/**
 * Returns whether the failure of a row is allowed: it does not fail the run, and counts as a success for the tasks below. The failure of
 * an instance fails its fan-out, whose failure is allowed in turn.
 */
export const isAllowedFailure = (node: Node, kind: RowKind, status: FinalStatus): boolean =>
  status === "failed" && node.continueOnError === true && !isInstance(node, kind)

/** Returns the nodes whose failures are allowed. */
export const nodesAllowedToFail = ({ nodes }: CompiledWorkflow): number[] =>
  nodes.flatMap(({ continueOnError }, index) => (continueOnError === true ? [index] : []))

/** Returns how the rows below count the end of a row. */
export const countedOutcome = (node: Node, kind: RowKind, status: FinalStatus, skip: SkipReason | null): UpstreamOutcome =>
  isAllowedFailure(node, kind, status) ? "success" : upstreamOutcome(status, skip)

const countsAsFailure = (outcome: UpstreamOutcome): boolean => outcome === "failed" || outcome === "unmet"

/**
 * Returns the edges of a finished row. Instances of a fan-out have none: they count down their container, which has the edges when
 * it finishes.
 */
export const edgesOf = (
  workflow: CompiledWorkflow,
  run: RunLaneKey,
  row: { node: number; path: string; kind: RowKind },
  outcome: UpstreamOutcome,
): Edge[] => {
  const node = workflow.nodes[row.node]!
  if (isInstance(node, row.kind)) return []
  return node.downstream.map((below) => {
    const target = workflow.nodes[below]!
    return { node: below, path: row.path, outcome, reroute: countsAsFailure(outcome) && !target.gated ? gateLane(run) : null }
  })
}

export interface CountedRow {
  kind: RowKind
  hook: boolean
  /** The row lies in a container, which counts it instead of the run. */
  isChild: boolean
  /** See `isAllowedFailure`. */
  allowedFailure: boolean
}

/** How a finished row counts: each number is 0 or 1. */
export interface FinishCounts {
  /** Listed tasks, which the run counts by status. */
  listedTasks: number
  /** Top-level rows, of which the run has one less open. */
  open: number
  /** Hooks, of which the run has one less pending. */
  hooks: number
  /** Failed top-level rows of the run. */
  failedTopLevel: number
  /** Unsuccessful children of the container. */
  failedChildren: number
}

/**
 * Returns how a finished row counts. Postgres evaluates the rule in SQL (store/postgres/advance/count-down.ts), for all rows of a
 * batch.
 */
export const countFinish = ({ kind, hook, isChild, allowedFailure }: CountedRow, status: FinalStatus): FinishCounts => {
  const open = !isChild && !hook
  const failed = status === "failed" && !allowedFailure
  return {
    listedTasks: Number(kind === "task" && !hook),
    open: Number(open),
    hooks: Number(!isChild && hook),
    failedTopLevel: Number(open && failed),
    failedChildren: Number(isChild && (failed || status === "cancelled")),
  }
}

/** Returns the final status of a run whose tasks have all finished. */
export const closeStatus = (run: {
  cancelling: "cancel" | "timeout" | null
  failed: number
}): Extract<RunStatus, "success" | "failed" | "cancelled"> =>
  run.cancelling === "cancel" ? "cancelled" : run.cancelling === "timeout" || run.failed > 0 ? "failed" : "success"
