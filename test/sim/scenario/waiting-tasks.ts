// Makes some tasks of a random workflow wait without a slot: they sleep, wait for an approval, a sub-workflow or an object, or defer their
// work to a callback. Uses a random stream of its own, which leaves the rest of the seed as it is.

import type { JsonObject } from "../../../src/core/values/json.ts"
import type { ParamSpec } from "../../../src/core/model/workflow.ts"
import type { Rng } from "../rng.ts"
import { makeWorkflow, type SimNode, type SimWorkflow, type WaitPlan } from "./workflows.ts"

/** The params of runs that no user starts. */
export const PARAMS: ParamSpec[] = [
  { name: "x", type: "integer", required: true },
  { name: "g", type: "string", required: true },
]

/** The workflow that sub-workflow tasks run. */
export const makeChild = (rng: Rng): SimWorkflow => {
  const child = makeWorkflow(rng, "child", false)
  child.compiled.params = PARAMS
  return child
}

export const addWaitingTasks = (rng: Rng, workflow: SimWorkflow, child: string): void => {
  if (!rng.chance(0.4)) return
  for (const simNode of workflow.nodes) {
    const fan = simNode.node.fan?.parallel
    const isHuge = fan !== undefined && "lit" in fan && (fan.lit as number) > 100
    if (simNode.node.executor !== "fake" || isHuge || !rng.chance(0.3)) continue
    const plan = makePlan(rng, simNode.node.hook !== null)
    if (plan.kind === "defer") Object.assign(simNode, { waitPlan: plan }).node.defer = { hosts: [] }
    else if (simNode.node.parent === undefined) makeWaiting(simNode, plan, child)
  }
}

/** Longer than the cancel of a run may take. */
const LONG_MS = 20 * 60_000

const makePlan = (rng: Rng, hook: boolean): WaitPlan => {
  const kinds = hook
    ? (["sleep", "approval", "defer", "wait"] as const)
    : (["sleep", "approval", "defer", "wait", "workflow"] as const)
  const kind = rng.pick([...kinds])
  switch (kind) {
    case "sleep":
      return { kind, ms: rng.pick([0, 500, 3000, 30_000, LONG_MS]) }
    case "approval":
      return { kind, default: rng.pick(["approve", "reject", null]) }
    case "wait":
      return { kind, appearsAtMs: rng.pick([0, 2000, 20_000, 80_000]), everyMs: rng.pick([100, 1000, 5000]) }
    case "defer":
    case "workflow":
      return { kind }
    default:
      return kind satisfies never
  }
}

const makeWaiting = (simNode: SimNode, plan: WaitPlan, child: string): void => {
  const { node } = simNode
  Object.assign(simNode, { waitPlan: plan, key: null, cacheKey: null, largeOutput: false })
  for (const field of ["cache", "concurrencyKey", "concurrency", "input"] as const) delete node[field]
  node.executor = plan.kind
  node.gated = true
  if (plan.kind === "sleep") node.fields = { duration: { lit: plan.ms / 1000 } }
  if (plan.kind === "approval" && plan.default !== null) node.fields = { default: { lit: plan.default } }
  if (plan.kind === "wait") {
    node.fields = { path: { lit: objectAddress(plan) } }
    node.wait = { everyMs: plan.everyMs }
  }
  if (plan.kind !== "workflow") return
  node.fields = { workflow: { lit: child } }
  node.input = { map: { x: { expr: "params.x" }, g: { expr: "params.g" } } }
}

type ObjectWait = Extract<WaitPlan, { kind: "wait" }>

/** The address of the object that a task waits for says when the object appears. */
const objectAddress = ({ appearsAtMs }: ObjectWait): string => `s3://waits/${appearsAtMs}`

/** Returns when an object appears, in milliseconds since the start of the simulation. */
export const appearanceOf = (address: string): number => Number(address.split("/").at(-1))

/** The output of a task that has found its object. */
export const waitOutput = (plan: ObjectWait): JsonObject => ({ path: objectAddress(plan), paths: [objectAddress(plan)] })
