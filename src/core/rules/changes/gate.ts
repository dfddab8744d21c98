// Rules that the gate applies before a task runs: `run_when` over the outcomes of its upstreams, and the instances of a fan-out.
// The caller (engine/gate/gate.ts) evaluates expressions.

import type { Json } from "../../values/json.ts"
import type { SkipReason } from "../../model/status.ts"
import { gateLane, type RunLaneKey, workLane } from "../../routing/lanes.ts"
import { isGroup } from "../../model/task-path.ts"
import { isWaitingExecutor } from "../../model/waiting-on.ts"
import type { Node, RunWhen } from "../../model/workflow.ts"

/** Outcomes of a task's upstreams, all of which have finished. core/model/status.ts explains `unmet` and `waived`. */
export interface UpstreamCounts {
  total: number
  failed: number
  unmet: number
  waived: number
}

const succeeded = (up: UpstreamCounts): number => up.total - up.failed - up.unmet - up.waived
const unsuccessful = (up: UpstreamCounts): number => up.failed + up.unmet

const RULES = {
  all_success: (up) => unsuccessful(up) === 0,
  all_done: () => true,
  any_failed: (up) => unsuccessful(up) > 0,
  all_failed: (up) => up.total > 0 && unsuccessful(up) === up.total,
  any_success: (up) => up.total === 0 || succeeded(up) > 0,
  none_failed: (up) => up.failed === 0,
} as const satisfies Record<RunWhen, (up: UpstreamCounts) => boolean>

/** Returns null when the rule is met, otherwise the reason of the skip, which the tasks below count. */
export const evaluateRule = (rule: RunWhen, up: UpstreamCounts): SkipReason | null =>
  RULES[rule](up) ? null : unsuccessful(up) > 0 ? "unmet" : "waived"

export type FanOut = { total: number; itemAt: (index: number) => Json } | { problem: string }

const describeValue = (value: Json): string => {
  if (value === null) return "null"
  if (Array.isArray(value)) return "a list"
  return typeof value === "object" ? "an object" : `the ${typeof value} ${JSON.stringify(value)}`
}

/** Computes the instances of a fan-out. With both `foreach` and `parallel: N`, instance `i` has item `floor(i / N)`. */
export const fanOut = (fan: { foreach?: Json; parallel?: Json; reference: string }, maxInstances: number): FanOut => {
  const { foreach, parallel, reference } = fan
  if (foreach !== undefined && !Array.isArray(foreach)) {
    return { problem: `foreach needs a list, but ${reference} is ${describeValue(foreach)}` }
  }
  if (parallel !== undefined && (typeof parallel !== "number" || !Number.isInteger(parallel) || parallel < 0)) {
    return { problem: `parallel needs a whole number of 0 or more, but ${reference} is ${describeValue(parallel)}` }
  }
  const perItem = parallel ?? 1
  const total = (foreach?.length ?? 1) * perItem
  if (total > maxInstances) {
    return { problem: `${reference} makes ${total} instances; at most ${maxInstances} are allowed (ORK_MAX_FANOUT)` }
  }
  return { total, itemAt: (index) => (foreach === undefined ? null : foreach[Math.floor(index / perItem)]!) }
}

/**
 * Returns true when `if` mentions the item or the index and must be evaluated for each instance; otherwise once for the fan-out is enough.
 * A mention inside a string literal counts too: evaluating more often has the same result.
 */
export const ifPerInstance = (node: Pick<Node, "if" | "fan">): boolean =>
  node.fan !== undefined && node.if !== undefined && /(?<!\bparent\.)\b(item|index)\b/.test(node.if)

/** Returns the lane of new instances: the gate's when it must open them (groups) or decide for each of them. */
export const instanceLane = (run: RunLaneKey, node: Node): string =>
  isGroup(node) ||
  isWaitingExecutor(node.executor) ||
  node.cache !== undefined ||
  node.concurrencyKey !== undefined ||
  ifPerInstance(node)
    ? gateLane(run)
    : workLane(run, node)
