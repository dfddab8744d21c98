// Some tasks of a random workflow wait without a slot: they sleep, ask somebody, are a workflow of their own, or hand their work
// on. A stream of its own keeps the rest of a seed as it is.

import { isDeepStrictEqual } from "node:util"
import type { Json } from "../../../src/core/model/json.ts"
import type { TaskRecord } from "../database/table-reader.ts"
import type { Rng } from "../rng.ts"
import type { Witnessed } from "../checks/attempt-log.ts"
import { makeWorkflow, type SimNode, type SimWorkflow, type WaitPlan } from "./workflows.ts"
import type { World } from "../simulation.ts"

/** What somebody said to a task that waited. */
export interface Answer {
  good: boolean
  output: Json
}

/** What tasks that are workflows run. */
export const makeChild = (rng: Rng): SimWorkflow => {
  const child = makeWorkflow(rng, "child", false)
  child.compiled.params = [
    { name: "x", type: "integer", required: true },
    { name: "g", type: "string", required: true },
  ]
  return child
}

export const addWaits = (rng: Rng, workflow: SimWorkflow, child: string): void => {
  if (!rng.chance(0.4)) return
  for (const sim of workflow.nodes) {
    const fan = sim.node.fan?.parallel
    const isHuge = fan !== undefined && "lit" in fan && (fan.lit as number) > 100
    if (sim.node.executor !== "fake" || isHuge || !rng.chance(0.3)) continue
    const plan = makePlan(rng, sim.node.hook !== null)
    if (plan.kind === "defer") sim.waits = plan
    else if (sim.node.parent === undefined) makeWaiting(sim, plan, child)
  }
}

/** Longer than a cancel may take. */
const LONG_MS = 20 * 60_000

const makePlan = (rng: Rng, hook: boolean): WaitPlan => {
  const kinds = hook ? (["sleep", "approval", "defer"] as const) : (["sleep", "approval", "defer", "workflow"] as const)
  const kind = rng.pick([...kinds])
  switch (kind) {
    case "sleep":
      return { kind, ms: rng.pick([0, 500, 3000, 30_000, LONG_MS]) }
    case "approval":
      return { kind, default: rng.pick(["approve", "reject", null]) }
    case "defer":
    case "workflow":
      return { kind }
    default:
      return kind satisfies never
  }
}

const makeWaiting = (sim: SimNode, plan: WaitPlan, child: string): void => {
  const { node } = sim
  Object.assign(sim, { waits: plan, key: null, cacheKey: null, largeOutput: false })
  for (const field of ["cache", "concurrencyKey", "concurrency", "input"] as const) delete node[field]
  node.executor = plan.kind
  node.gated = true
  if (plan.kind === "sleep") node.fields = { duration: { lit: plan.ms / 1000 } }
  if (plan.kind === "approval" && plan.default !== null) node.fields = { default: { lit: plan.default } }
  if (plan.kind !== "workflow") return
  node.fields = { workflow: { lit: child } }
  node.input = { map: { x: { expr: "params.x" }, g: { expr: "params.g" } } }
}

/** The attempt itself is over, but its work was not. */
export const isDeferred = ({ sim, result }: Witnessed): boolean => sim.waits?.kind === "defer" && result?.state === "success"

/** Why a task that waited cannot have ended so; null: it can. */
export const waitedWrongly = (world: World, sim: SimNode, row: TaskRecord, state: string): string | null => {
  const plan = sim.waits!
  const { timeoutMs } = sim.node
  const took = row.started_at === null ? 0 : Date.parse(row.finished_at!) - Date.parse(row.started_at)
  const answers = world.answers.get(row.attempt_id!) ?? []
  const late = timeoutMs !== null && took >= timeoutMs
  const output = (): Json => world.model.output(row)
  if (state === "lost" && plan.kind !== "defer") return "it was nobody's to lose"
  switch (plan.kind) {
    case "sleep":
      if (state === "success") return took >= plan.ms ? null : `it slept ${took} of ${plan.ms} ms`
      return timeoutMs !== null && timeoutMs <= plan.ms ? null : `its timeout is ${timeoutMs}`
    case "approval": {
      const said = state === "success"
      const isDefault = late && plan.default === (said ? "approve" : "reject")
      if (state === "timeout") return late && plan.default === null ? null : "nobody was too late"
      return isDefault || answers.some(({ good }) => good === said) ? null : "nobody said so"
    }
    case "workflow": {
      const child = world.tables.childOf(row.attempt_id!)
      if (state === "timeout") return late ? null : "it had time left"
      return child?.status === state ? null : `its run is ${child?.status}`
    }
    case "defer": {
      const attempt = world.witness.attempts.get(row.attempt_id!)
      // It could not be prepared.
      if (attempt === undefined) return null
      // Its holder left, or was given up on before what it said was written down.
      if (state === "lost") return world.givenUp(attempt) || attempt.result?.state === "lost" ? null : "nobody lost it"
      if (!isDeferred(attempt)) return attempt.result?.state === state ? null : "it never said so"
      if (state === "failed") return answers.some(({ good }) => !good) ? null : "nobody said so"
      return answers.some(({ good, output: said }) => good && isDeepStrictEqual(said, output())) ? null : "nobody said so"
    }
    default:
      return plan satisfies never
  }
}
