// The rules that a task must pass before it runs: `run_when` over how its upstreams ended, and how many instances a fan-out
// makes. Expressions are evaluated by the caller (engine/gate/gate.ts); everything here is a table or arithmetic.

import type { Json } from "../model/json.ts"
import type { SkipReason } from "../model/status.ts"
import { gateLane, type RunLaneKey, workLane } from "../routing/lanes.ts"
import { isGroup } from "../model/task-path.ts"
import { isWaitingExecutor } from "../model/waiting-on.ts"
import type { Node, RunWhen } from "../model/workflow.ts"

/** How the upstreams of a task ended, once all of them have. `unmet` and `waived`: see core/model/status.ts. */
export interface UpstreamCounts {
  total: number
  failed: number
  unmet: number
  waived: number
}

const succeeded = (up: UpstreamCounts): number => up.total - up.failed - up.unmet - up.waived
const notMet = (up: UpstreamCounts): number => up.failed + up.unmet

const RULES = {
  all_success: (up) => notMet(up) === 0,
  all_done: () => true,
  any_failed: (up) => notMet(up) > 0,
  all_failed: (up) => up.total > 0 && notMet(up) === up.total,
  any_success: (up) => up.total === 0 || succeeded(up) > 0,
  none_failed: (up) => up.failed === 0,
} as const satisfies Record<RunWhen, (up: UpstreamCounts) => boolean>

/** null: the rule is met. Else what the skip means to the tasks below: failure passes on, its absence does not. */
export const evaluateRule = (rule: RunWhen, up: UpstreamCounts): SkipReason | null =>
  RULES[rule](up) ? null : notMet(up) > 0 ? "unmet" : "waived"

export type FanOut = { total: number; itemAt: (index: number) => Json } | { problem: string }

const typeName = (value: Json): string =>
  value === null
    ? "null"
    : Array.isArray(value)
      ? "a list"
      : typeof value === "object"
        ? "an object"
        : `the ${typeof value} ${JSON.stringify(value)}`

/** The instances of a fan-out. With both, N per item: instance = item × N + k. */
export const fanOut = (fan: { foreach?: Json; parallel?: Json; reference: string }, maxInstances: number): FanOut => {
  const { foreach, parallel, reference } = fan
  if (foreach !== undefined && !Array.isArray(foreach)) {
    return { problem: `foreach needs a list, but ${reference} is ${typeName(foreach)}` }
  }
  if (parallel !== undefined && (typeof parallel !== "number" || !Number.isInteger(parallel) || parallel < 0)) {
    return { problem: `parallel needs a whole number from 0, but ${reference} is ${typeName(parallel)}` }
  }
  const perItem = parallel ?? 1
  const total = (foreach?.length ?? 1) * perItem
  if (total > maxInstances) {
    return { problem: `${reference} makes ${total} instances, more than the ${maxInstances} allowed (ORK_MAX_FANOUT)` }
  }
  return { total, itemAt: (index) => (foreach === undefined ? null : foreach[Math.floor(index / perItem)]!) }
}

/**
 * An `if` that speaks of the item is judged for each instance, any other once for all. The word in a string literal counts too:
 * then it is judged more often than needed, with the same answer.
 */
export const ifPerInstance = (node: Pick<Node, "if" | "fan">): boolean =>
  node.fan !== undefined && node.if !== undefined && /(?<!\bparent\.)\b(item|index)\b/.test(node.if)

/** Instances go through the gate themselves only for what differs between them; groups are opened there. */
export const instanceLane = (run: RunLaneKey, node: Node): string =>
  isGroup(node) ||
  isWaitingExecutor(node.executor) ||
  node.cache !== undefined ||
  node.concurrencyKey !== undefined ||
  ifPerInstance(node)
    ? gateLane(run)
    : workLane(run, node)
