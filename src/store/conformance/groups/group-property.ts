// Random nested graphs under random changes. The final states must equal those of a short recursive definition.

import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { evaluateRule } from "../../../core/rules/changes/gate.ts"
import { groupMembers } from "../../../core/model/task-path.ts"
import type { RowState } from "../../../core/rules/runs/retry-plan.ts"
import { isTaskFinished, upstreamOutcome } from "../../../core/model/status.ts"
import { group, type NodeInput, workflow } from "../../../core/testing.ts"
import { type CompiledWorkflow, rootNodes, RUN_WHEN } from "../../../core/model/workflow.ts"
import type { RunRow } from "../../contract/store.ts"
import { fan } from "./groups.ts"
import { Chaos, check, statesOf } from "../runs/property.ts"
import { type Open, setup } from "../world.ts"

interface Shape {
  after: number[]
  rule: number
  fan: number | null
  concurrency: number | null
  inside: Shape[]
}

const NOTHING: fc.Arbitrary<Shape[]> = fc.constant([])

const shapes = (depth: number): fc.Arbitrary<Shape[]> =>
  fc.array(
    fc.record({
      after: fc.array(fc.nat({ max: 2 }), { maxLength: 2 }),
      rule: fc.nat({ max: 2 * RUN_WHEN.length }),
      fan: fc.option(fc.nat({ max: 3 }), { freq: 2 }),
      concurrency: fc.option(fc.integer({ min: 1, max: 2 }), { freq: 4 }),
      inside: depth === 0 ? NOTHING : fc.oneof(NOTHING, shapes(depth - 1)),
    }),
    { minLength: 1, maxLength: 3 },
  )

interface Plan {
  seed: number
  tasks: Shape[]
  concurrency: number | null
  steps: number[]
}

const planArbitrary: fc.Arbitrary<Plan> = fc.record({
  seed: fc.nat(),
  tasks: shapes(2),
  concurrency: fc.option(fc.integer({ min: 1, max: 3 }), { freq: 3 }),
  steps: fc.array(fc.nat({ max: 11 }), { minLength: 5, maxLength: 40 }),
})

const flowOf = (plan: Plan): { flow: CompiledWorkflow; totals: Map<string, number> } => {
  const tasks: { [name: string]: NodeInput } = {}
  const totals = new Map<string, number>()
  const add = (list: Shape[], prefix: string): void => {
    for (const [i, { after, rule, fan: total, concurrency, inside }] of list.entries()) {
      const name = `${prefix}t${i}`
      const input: NodeInput = {
        after: [...new Set(after.filter((up) => up < i))].map((up) => `${prefix}t${up}`),
        rule: RUN_WHEN[rule] ?? "all_success",
        ...(inside.length > 0 && group),
      }
      if (total !== null) {
        input.fan = fan
        totals.set(name, total)
      }
      if (concurrency !== null) input.concurrency = concurrency
      tasks[name] = input
    }
    for (const [i, { inside }] of list.entries()) if (inside.length > 0) add(inside, `${prefix}t${i}.`)
  }
  add(plan.tasks, "")
  const rest = plan.concurrency === null ? {} : { concurrency: plan.concurrency }
  return { flow: workflow({ ...tasks, "on_exit.0": {} }, rest), totals }
}

/** Computes the expected final states from those of the leaf tasks by the rules alone. */
class ExpectedStates {
  readonly #chaos: Chaos
  readonly #states: ReadonlyMap<string, RowState>
  /** Final states of leaf instances by node and path of their fan-out. */
  readonly #leaves = new Map<string, string[]>()

  constructor(chaos: Chaos, states: readonly RowState[], tasks: { node: number; path: string; status: string }[]) {
    this.#chaos = chaos
    this.#states = new Map(states.map((state) => [`${state.node}/${state.path}`, state]))
    for (const { node, path, status } of tasks) {
      const place = `${node}/${path.slice(0, Math.max(0, path.lastIndexOf(".")))}`
      this.#leaves.set(place, [...(this.#leaves.get(place) ?? []), status])
    }
  }

  scope(inside: number | null, path: string): boolean {
    const { flow } = this.#chaos
    const members = inside === null ? rootNodes(flow) : groupMembers(flow, inside)
    return members.map((node) => this.#node(node, path)).includes("failed")
  }

  #node(index: number, path: string): string {
    const node = this.#chaos.flow.nodes[index]!
    const state = this.#states.get(`${index}/${path}`)!
    const up = { total: node.upstream.length, failed: 0, unmet: 0, waived: 0 }
    for (const above of node.upstream) {
      const { status, skipReason } = this.#states.get(`${above}/${path}`)!
      const end = isTaskFinished(status) ? upstreamOutcome(status, skipReason) : "success"
      if (end !== "success") up[end]++
    }
    const skipReason = evaluateRule(node.rule, up)
    expect({ node: node.name, path, skipped: state.status === "skipped", skip: state.skipReason }).toEqual({
      node: node.name,
      path,
      skipped: skipReason !== null,
      skip: skipReason,
    })
    if (skipReason !== null) return "skipped"
    const failed = node.fan === undefined ? this.#one(index, path, state) : this.#fan(index, path)
    expect([node.name, path, state.status]).toEqual([node.name, path, failed ? "failed" : "success"])
    return state.status
  }

  #one(index: number, path: string, state: RowState): boolean {
    return state.kind === "group" ? this.scope(index, path) : state.status === "failed"
  }

  #fan(index: number, path: string): boolean {
    const total = this.#chaos.totalOf(index)
    if (this.#chaos.flow.nodes[index]!.executor !== "group") {
      const ends = this.#leaves.get(`${index}/${path}`) ?? []
      expect([index, path, ends.length]).toEqual([index, path, total])
      return ends.includes("failed")
    }
    let failed = false
    for (let i = 0; i < total; i++) {
      const place = path === "" ? `${i}` : `${path}.${i}`
      const inside = this.scope(index, place)
      expect([index, place, this.#states.get(`${index}/${place}`)?.status]).toEqual([
        index,
        place,
        inside ? "failed" : "success",
      ])
      failed ||= inside
    }
    return failed
  }
}

const verify = async (chaos: Chaos, run: RunRow): Promise<void> => {
  const { store } = chaos.world
  const tasks = await store.listTasks({ runId: run.id, limit: 10_000 })
  const leaves = tasks.filter(({ node }) => chaos.flow.nodes[node]!.fan !== undefined)
  const failed = new ExpectedStates(chaos, await statesOf(chaos.world, run.id), leaves).scope(null, "")
  expect(run.status).toBe(failed ? "failed" : "success")
}

export const groupPropertyTests = (open: Open, { runs = 15 } = {}): void => {
  describe("random nested graphs under random changes", () => {
    it("keep their counters at every level and finish as the rules require", async () => {
      await fc.assert(
        fc.asyncProperty(planArbitrary, async (plan) => {
          const { flow, totals } = flowOf(plan)
          const chaos = new Chaos(await setup(open, plan.seed), flow, (node) => totals.get(flow.nodes[node]!.name) ?? 0)
          chaos.runs.push((await chaos.world.start(flow)).id)
          for (const step of plan.steps) {
            await chaos.step(step)
            await check(chaos)
          }
          await chaos.finish()
          await check(chaos)
          for (const id of chaos.runs) {
            const run = await chaos.world.run(id)
            // A cancellation may interrupt an expansion.
            if (!chaos.cancelled.has(id)) await verify(chaos, run)
          }
          await chaos.world.close()
        }),
        { numRuns: runs, endOnFailure: false },
      )
    }, 120_000)
  })
}
