// Turns some tasks of a random workflow into groups: with or without items, up to three deep, with fan-outs and rules inside. Uses a
// random stream of its own, which leaves the rest of the seed as it is.

import { GROUP_EXECUTOR, RUN_WHEN } from "../../../src/core/model/workflow.ts"
import type { Rng } from "../rng.ts"
import { bareNode, isGated, newSimNode, type SimNode, type SimWorkflow } from "./workflows.ts"

const MAX_DEPTH = 3
const MAX_NODES = 40

export const addGroups = (rng: Rng, workflow: SimWorkflow): void => {
  if (!rng.chance(0.35)) return
  const plain = workflow.nodes.filter(({ node }) => node.hook === null)
  for (const simNode of plain) {
    const fan = simNode.node.fan
    const isHuge = fan?.parallel !== undefined && "lit" in fan.parallel && (fan.parallel.lit as number) > 100
    if (rng.chance(0.3) && !isHuge && workflow.nodes.length < MAX_NODES) makeGroup(rng, workflow, simNode, 1)
  }
  workflow.compiled.nodes = workflow.nodes.map(({ node }) => node)
}

const makeGroup = (rng: Rng, workflow: SimWorkflow, simNode: SimNode, depth: number): void => {
  const { node } = simNode
  node.executor = GROUP_EXECUTOR
  node.gated = true
  node.timeoutMs = rng.chance(0.4) ? rng.pick([100, 500, 3000]) : null
  delete node.cache
  delete node.concurrencyKey
  delete node.input
  if (simNode.key !== null) delete node.concurrency
  Object.assign(simNode, { key: null, cacheKey: null, largeOutput: false })
  const inside = Array.from({ length: rng.int(1, 3) }, (_, i) => addInner(rng, workflow, simNode, i))
  const first = inside[0]!.index
  for (const { index, node: own } of inside) {
    for (const up of own.upstream) workflow.nodes[up]!.node.downstream.push(index)
    own.reads = own.upstream
  }
  for (const each of inside) {
    if (depth < MAX_DEPTH && rng.chance(0.35) && workflow.nodes.length < MAX_NODES) makeGroup(rng, workflow, each, depth + 1)
  }
  if (first <= simNode.index) throw new Error("a group must come before its tasks")
}

const addInner = (rng: Rng, workflow: SimWorkflow, around: SimNode, i: number): SimNode => {
  const simNode = newSimNode(workflow.nodes.length, bareNode(`${around.node.name}.s${i}`))
  workflow.nodes.push(simNode)
  const { node } = simNode
  node.group = around.index
  const beside = Array.from({ length: i }, (_, k) => simNode.index - 1 - k).filter(() => rng.chance(0.6))
  node.upstream = beside.toSorted((a, b) => a - b)
  if (rng.chance(0.25)) node.rule = rng.pick(RUN_WHEN)
  if (rng.chance(0.1)) node.continueOnError = true
  const parent = fannedAround(workflow, simNode)
  if (parent !== null && rng.chance(0.5)) {
    node.parent = parent
    node.input = { map: { at: { expr: "parent.index" } } }
  }
  if (rng.chance(0.3)) addFan(rng, simNode)
  if (rng.chance(0.2)) addCondition(rng, simNode)
  if (rng.chance(0.2)) node.concurrency = rng.int(1, 3)
  if (rng.chance(0.1)) node.priority = rng.int(1, 10)
  node.retry = { ...node.retry, maxAttempts: rng.int(1, 3), baseDelayMs: rng.pick([0, 100, 1000]), backoff: "fixed" }
  node.lostRetries = rng.pick([0, 1, 3])
  node.timeoutMs = rng.pick([2000, 3_600_000, null])
  node.gated = isGated(node)
  return simNode
}

const fannedAround = (workflow: SimWorkflow, { node }: SimNode): number | null => {
  for (let at = node.group; at !== null; at = workflow.nodes[at]!.node.group) {
    if (workflow.nodes[at]!.items !== null) return at
  }
  return null
}

const addFan = (rng: Rng, simNode: SimNode): void => {
  const list = Array.from({ length: rng.int(0, 3) }, (_, i) => `item ${i}`)
  if (simNode.node.parent !== undefined && rng.chance(0.4)) {
    simNode.node.fan = { parallel: { expr: "parent.index" }, reference: "parent.index" }
    simNode.items = ({ parentIndex }) => Array.from({ length: parentIndex! }, () => null)
  } else if (rng.chance(0.5)) {
    simNode.node.fan = { foreach: { lit: list }, reference: "a list" }
    simNode.items = () => list
  } else {
    simNode.node.fan = { parallel: { lit: list.length }, reference: "a number" }
    simNode.items = () => list.map(() => null)
  }
}

const addCondition = (rng: Rng, simNode: SimNode): void => {
  if (simNode.node.fan !== undefined && rng.chance(0.5)) {
    simNode.node.if = "index % 2 == 0"
    simNode.condition = { perInstance: true, evaluate: ({ index }) => index! % 2 === 0 }
  } else if (simNode.node.parent !== undefined) {
    simNode.node.if = "parent.index != 1"
    simNode.condition = { perInstance: false, evaluate: ({ parentIndex }) => parentIndex !== 1 }
  } else {
    simNode.node.if = "params.x > 1"
    simNode.condition = { perInstance: false, evaluate: ({ params }) => (params["x"] as number) > 1 }
  }
}
