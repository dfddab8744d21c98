// Some tasks of a random workflow become groups: with or without items, up to three deep, with fan-outs and rules inside. A
// stream of its own keeps the rest of a seed as it is.

import { GROUP_EXECUTOR, RUN_WHEN } from "../../../src/core/model/workflow.ts"
import type { Rng } from "../rng.ts"
import { bareNode, isGated, simNode, type SimNode, type SimWorkflow } from "./workflows.ts"

const MAX_DEPTH = 3
const MOST_NODES = 40

export const addGroups = (rng: Rng, workflow: SimWorkflow): void => {
  if (!rng.chance(0.35)) return
  const plain = workflow.nodes.filter(({ node }) => node.hook === null)
  for (const sim of plain) {
    const fan = sim.node.fan
    const isHuge = fan?.parallel !== undefined && "lit" in fan.parallel && (fan.parallel.lit as number) > 100
    if (rng.chance(0.3) && !isHuge && workflow.nodes.length < MOST_NODES) makeGroup(rng, workflow, sim, 1)
  }
  workflow.compiled.nodes = workflow.nodes.map(({ node }) => node)
}

const makeGroup = (rng: Rng, workflow: SimWorkflow, sim: SimNode, depth: number): void => {
  const { node } = sim
  node.executor = GROUP_EXECUTOR
  node.gated = true
  node.timeoutMs = rng.chance(0.4) ? rng.pick([100, 500, 3000]) : null
  delete node.cache
  delete node.concurrencyKey
  delete node.input
  if (sim.key !== null) delete node.concurrency
  Object.assign(sim, { key: null, cacheKey: null, largeOutput: false })
  const inside = Array.from({ length: rng.int(1, 3) }, (_, i) => addInner(rng, workflow, sim, i))
  const first = inside[0]!.index
  for (const { index, node: own } of inside) {
    for (const up of own.upstream) workflow.nodes[up]!.node.downstream.push(index)
    own.reads = own.upstream
  }
  for (const each of inside) {
    if (depth < MAX_DEPTH && rng.chance(0.35) && workflow.nodes.length < MOST_NODES) makeGroup(rng, workflow, each, depth + 1)
  }
  if (first <= sim.index) throw new Error("groups come before what is in them")
}

const addInner = (rng: Rng, workflow: SimWorkflow, around: SimNode, i: number): SimNode => {
  const sim = simNode(workflow.nodes.length, bareNode(`${around.node.name}.s${i}`))
  workflow.nodes.push(sim)
  const { node } = sim
  node.group = around.index
  const beside = Array.from({ length: i }, (_, k) => sim.index - 1 - k).filter(() => rng.chance(0.6))
  node.upstream = beside.toSorted((a, b) => a - b)
  if (rng.chance(0.25)) node.rule = rng.pick(RUN_WHEN)
  const parent = fannedAround(workflow, sim)
  if (parent !== null && rng.chance(0.5)) {
    node.parent = parent
    node.input = { map: { at: { expr: "parent.index" } } }
  }
  if (rng.chance(0.3)) addFan(rng, sim)
  if (rng.chance(0.2)) addCondition(rng, sim)
  if (rng.chance(0.2)) node.concurrency = rng.int(1, 3)
  if (rng.chance(0.1)) node.priority = rng.int(1, 10)
  node.retry = { ...node.retry, maxAttempts: rng.int(1, 3), baseDelayMs: rng.pick([0, 100, 1000]), backoff: "fixed" }
  node.lostRetries = rng.pick([0, 1, 3])
  node.timeoutMs = rng.pick([2000, 3_600_000, null])
  node.gated = isGated(node)
  return sim
}

const fannedAround = (workflow: SimWorkflow, { node }: SimNode): number | null => {
  for (let at = node.group; at !== null; at = workflow.nodes[at]!.node.group) {
    if (workflow.nodes[at]!.items !== null) return at
  }
  return null
}

const addFan = (rng: Rng, sim: SimNode): void => {
  const list = Array.from({ length: rng.int(0, 3) }, (_, i) => `item ${i}`)
  if (sim.node.parent !== undefined && rng.chance(0.4)) {
    sim.node.fan = { parallel: { expr: "parent.index" }, reference: "parent.index" }
    sim.items = ({ parentIndex }) => Array.from({ length: parentIndex! }, () => null)
  } else if (rng.chance(0.5)) {
    sim.node.fan = { foreach: { lit: list }, reference: "a list" }
    sim.items = () => list
  } else {
    sim.node.fan = { parallel: { lit: list.length }, reference: "a number" }
    sim.items = () => list.map(() => null)
  }
}

const addCondition = (rng: Rng, sim: SimNode): void => {
  if (sim.node.fan !== undefined && rng.chance(0.5)) {
    sim.node.if = "index % 2 == 0"
    sim.condition = { perInstance: true, judge: ({ index }) => index! % 2 === 0 }
  } else if (sim.node.parent !== undefined) {
    sim.node.if = "parent.index != 1"
    sim.condition = { perInstance: false, judge: ({ parentIndex }) => parentIndex !== 1 }
  } else {
    sim.node.if = "params.x > 1"
    sim.condition = { perInstance: false, judge: ({ params }) => (params["x"] as number) > 1 }
  }
}
