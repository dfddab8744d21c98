// The order of claims: priority, round robin over workflows, age of the run, row.

import { describe, expect, it } from "vitest"
import { workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { GATE, names, type Open, setup, WORK, type World } from "../world.ts"

const flow = (name: string, tasks: number): CompiledWorkflow =>
  workflow(Object.fromEntries(Array.from({ length: tasks }, (_, i) => [`${name}${i}`, {}])), { name })

const oneByOne = async (world: World, count: number): Promise<string[]> => {
  const order: string[] = []
  for (let i = 0; i < count; i++) order.push(...names(world, await world.claim(1)))
  return order
}

export const orderTests = (open: Open): void => {
  describe("the order of claims", () => {
    it("is by priority first, where the task's own overrides the run's", async () => {
      const world = await setup(open)
      await world.start(workflow({ low: { priority: 1 }, plain: {} }, { name: "a" }), { priority: 4 })
      await world.start(workflow({ high: { priority: 10 }, middle: {} }, { name: "b", priority: 6 }))
      expect(await oneByOne(world, 5)).toEqual(["high", "middle", "plain", "low"])
    })

    it("is by priority across lanes too", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { queue: "x", priority: 3 }, b: { priority: 9 }, c: { queue: "x", priority: 5 } }))
      const order: string[] = []
      for (let i = 0; i < 3; i++) order.push(...names(world, (await world.turn({ claim: 1, lanes: [WORK, "q:x"] })).claims))
      expect(order).toEqual(["b", "c", "a"])
    })

    it("is by run age within a workflow, then by row", async () => {
      const world = await setup(open)
      const first = await world.start(flow("a", 2))
      const second = await world.start(flow("a", 2))
      const claims = await world.claim()
      expect(claims.map(({ runId, node }) => [runId, node])).toEqual([
        [first.id, 0],
        [first.id, 1],
        [second.id, 0],
        [second.id, 1],
      ])
    })

    it("alternates among workflows of the same priority", async () => {
      const world = await setup(open)
      for (const name of ["a", "b", "c"]) await world.start(flow(name, 3))
      const order = await oneByOne(world, 9)
      for (let i = 0; i < 9; i += 3)
        expect(new Set(order.slice(i, i + 3).map((task) => task[0]))).toEqual(new Set(["a", "b", "c"]))
    })

    it("divides a batch among the workflows, so that one with many runs does not starve another", async () => {
      const world = await setup(open)
      const many = await world.deploy(flow("many", 5))
      await world.store.createRuns(Array.from({ length: 200 }, () => world.newRun(many)))
      await world.start(flow("few", 10))
      const claims = await world.claim(20)
      expect(claims).toHaveLength(20)
      expect(names(world, claims).filter((name) => name.startsWith("few"))).toHaveLength(10)
    })

    it("gives the unused share of a workflow to the others", async () => {
      const world = await setup(open)
      await world.start(flow("a", 2))
      await world.start(flow("b", 30))
      expect(await world.claim(20)).toHaveLength(20)
    })

    it("continues with the lower priority when the higher one is exhausted", async () => {
      const world = await setup(open)
      await world.start(flow("a", 2), { priority: 9 })
      await world.start(flow("b", 3), { priority: 2 })
      expect(names(world, await world.claim(4))).toEqual(["a0", "a1", "b0", "b1"])
    })

    it("is the same for the gate", async () => {
      const world = await setup(open)
      await world.start(workflow({ low: { if: "true" } }, { name: "a" }), { priority: 2 })
      await world.start(workflow({ high: { if: "true" } }, { name: "b" }), { priority: 8 })
      expect(names(world, (await world.turn({ gate: 1, gateLanes: [GATE] })).gateClaims)).toEqual(["high"])
    })

    it("is not blocked by rows of a run that is being cancelled", async () => {
      const world = await setup(open)
      const doomed = await world.start(flow("a", 3000), { priority: 9 })
      await world.start(flow("b", 1), { priority: 1 })
      await world.store.requestCancel(doomed.id, "cancel")
      let claimed: string[] = []
      for (let turns = 0; claimed.length === 0 && turns < 5; turns++) claimed = names(world, await world.claim(10))
      expect(claimed).toEqual(["b0"])
    })

    it("is not blocked by rows of a paused run or under a full limit", async () => {
      const world = await setup(open)
      const paused = await world.start(flow("a", 1500), { priority: 9 })
      await world.start({ ...flow("b", 1500), concurrency: 1 }, { priority: 8 })
      await world.start(flow("c", 1), { priority: 1 })
      await world.store.setPaused(paused.id, true)
      const claimed: string[] = []
      let more = true
      for (let turns = 0; more; turns++) {
        expect(turns).toBeLessThan(6)
        const turn = await world.turn({ claim: 10 })
        claimed.push(...names(world, turn.claims))
        more = turn.more
      }
      expect(claimed).toEqual(["b0", "c0"])
    })
  })
}
