// An advance with free capacity also claims the rows that it unblocks, in claim order. A store may do both in one write.

import { describe, expect, it } from "vitest"
import { planRetry } from "../../../core/rules/runs/retry-plan.ts"
import { group, workflow } from "../../../core/testing.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { statesOf } from "../runs/property.ts"
import { names, type Open, setup, type Turn, type TurnInput, type World } from "../world.ts"

const CHAIN = workflow({ a: {}, b: { after: ["a"] }, c: { after: ["b"] } })

/** Finishes these claims and claims up to the limit. */
const next = (world: World, claims: readonly TaskClaim[], input: TurnInput): Promise<Turn> =>
  world.turn({ changes: claims.map((claim) => world.ended(claim)), ...input })

export const claimUnblockedTests = (open: Open): void => {
  describe("an advance that unblocks rows", () => {
    const shown = (claims: readonly TaskClaim[]): string[] =>
      claims.map(({ run, runSeq, node }) => `${run.workflow} ${runSeq} ${node}`)

    it("claims the next rows of an older run before those of a younger one", async () => {
      const world = await setup(open)
      await world.start(CHAIN)
      await world.start(CHAIN)
      let { claims } = await world.turn({ claim: 1 })
      const seen = shown(claims)
      for (let i = 0; i < 3; i++) {
        ;({ claims } = await next(world, claims, { claim: 1 }))
        seen.push(...shown(claims))
      }
      expect(seen).toEqual(["test 1 0", "test 1 1", "test 1 2", "test 2 0"])
    })

    it("fills the remaining capacity with rows that were ready before", async () => {
      const world = await setup(open)
      for (let i = 0; i < 4; i++) await world.start(CHAIN)
      const { claims } = await world.turn({ claim: 1 })
      const second = await next(world, claims, { claim: 3 })
      expect(shown(second.claims)).toEqual(["test 1 1", "test 2 0", "test 3 0"])
      expect(shown((await next(world, second.claims, { claim: 4 })).claims)).toEqual([
        "test 1 2",
        "test 2 1",
        "test 3 1",
        "test 4 0",
      ])
    })

    it("claims at most the requested number and leaves the rest ready", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { after: ["a"] }, c: { after: ["a"] }, d: { after: ["a"] } }))
      const { claims } = await world.turn({ claim: 1 })
      const second = await next(world, claims, { claim: 2 })
      expect(names(world, second.claims)).toEqual(["b", "c"])
      expect(names(world, await world.claim(5))).toEqual(["d"])
    })

    it("orders the unblocked rows by priority, whatever their position in the graph", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, low: { after: ["a"], priority: 1 }, high: { after: ["a"], priority: 9 } }))
      const { claims } = await world.turn({ claim: 1 })
      expect(names(world, (await next(world, claims, { claim: 1 })).claims)).toEqual(["high"])
    })

    it("orders the runs of a batch by priority and age, whatever the order of the changes", async () => {
      const world = await setup(open)
      const flow = workflow({ a: {}, b: { after: ["a"] }, c: { after: ["a"] } })
      for (const priority of [5, 5, 9]) await world.start(flow, { priority })
      const claims = await world.claim(3)
      const second = await next(
        world,
        claims.toSorted((one, other) => other.runSeq - one.runSeq),
        { claim: 3 },
      )
      expect(shown(second.claims)).toEqual(["test 3 1", "test 3 2", "test 1 1"])
    })

    it("shares the capacity among the workflows of a batch", async () => {
      const world = await setup(open)
      const wide = { a: {}, ...Object.fromEntries(["b", "c", "d", "e"].map((name) => [name, { after: ["a"] }])) }
      await world.start(workflow(wide))
      await world.start({ ...workflow(wide), name: "other" })
      const second = await next(world, await world.claim(2), { claim: 4 })
      expect(Map.groupBy(second.claims, ({ run }) => run.workflow).size).toBe(2)
      expect(second.claims).toHaveLength(4)
    })

    it("does not overtake a ready row of the same run", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, x: {}, b: { after: ["a"] } }))
      const { claims } = await world.turn({ claim: 1 })
      expect(names(world, (await next(world, claims, { claim: 1 })).claims)).toEqual(["x"])
    })

    it("alternates with another workflow of the same priority", async () => {
      const world = await setup(open)
      await world.start(CHAIN)
      const { claims } = await world.turn({ claim: 1 })
      await world.start({ ...workflow({ x: {} }), name: "other" })
      expect(shown((await next(world, claims, { claim: 1 })).claims)).toEqual(["other 2 0"])
    })

    it.each([
      [9, "other 2 0"],
      [1, "test 1 1"],
    ])("yields to a ready row of priority %i if that comes first: %s", async (priority, first) => {
      const world = await setup(open)
      await world.start(CHAIN)
      const { claims } = await world.turn({ claim: 1 })
      await world.start({ ...workflow({ x: {} }), name: "other", priority })
      const second = await next(world, claims, { claim: 1 })
      expect(shown(second.claims)).toEqual([first])
    })

    it("keeps the position of a row that is under a limit", async () => {
      const world = await setup(open)
      const high = { after: ["a"], priority: 9, concurrency: 5 }
      await world.start(workflow({ a: {}, low: { after: ["a"], priority: 1 }, high }))
      expect(names(world, (await next(world, await world.claim(1), { claim: 1 })).claims)).toEqual(["high"])
    })

    it("keeps the position of a row that has had an attempt", async () => {
      const world = await setup(open)
      const flow = workflow({ a: {}, low: { after: ["a"], priority: 1 }, high: { after: ["a"], priority: 9 } })
      const { id } = await world.start(flow)
      await world.turn({ changes: (await world.claim(1)).map((claim) => world.ended(claim)) })
      const [high] = (await world.claim(1)) as [TaskClaim]
      await world.turn({ changes: [world.ended(high, "failed"), ...(await world.claim(1)).map((claim) => world.ended(claim))] })
      const plan = planRetry(flow, await world.run(id), await statesOf(world, id), { from: "a" })
      if (!("reset" in plan)) throw new Error("it cannot be retried")
      await world.store.retryRun(id, plan.reset)
      expect(names(world, (await next(world, await world.claim(1), { claim: 1 })).claims)).toEqual(["high"])
    })

    it("shares the capacity among the workflows of a batch and others that wait", async () => {
      const world = await setup(open)
      await world.start(CHAIN)
      await world.start({ ...CHAIN, name: "other" })
      const claims = await world.claim(2)
      await world.start(CHAIN)
      await world.start(CHAIN)
      const second = await next(world, claims, { claim: 2 })
      expect(second.claims.map(({ run }) => run.workflow).toSorted()).toEqual(["other", "test"])
    })

    it("claims nothing of a run that was paused in the meantime", async () => {
      const world = await setup(open)
      const { id } = await world.start(CHAIN)
      const claims = await world.claim(1)
      await world.store.setPaused(id, true)
      expect((await next(world, claims, { claim: 5 })).claims).toEqual([])
      await world.store.setPaused(id, false)
      expect(names(world, await world.claim(5))).toEqual(["b"])
    })

    it("claims nothing of a run that was cancelled in the meantime", async () => {
      const world = await setup(open)
      const { id } = await world.start(CHAIN)
      const claims = await world.claim(1)
      await world.store.requestCancel(id, "cancel")
      expect((await next(world, claims, { claim: 5 })).claims).toEqual([])
      expect(await world.statuses(id)).toEqual({ a: "success", b: "cancelled", c: "cancelled" })
    })

    it("makes them ready when no claim is requested", async () => {
      const world = await setup(open)
      await world.start(CHAIN)
      await next(world, await world.claim(1), { claim: 0 })
      expect(names(world, await world.claim(5))).toEqual(["b"])
    })

    it("gives the gate, in the same advance, a row that a failure moved to the gate's lane", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] } }))
      const [a, b] = (await world.claim(2)) as [TaskClaim, TaskClaim]
      await world.turn({ changes: [world.ended(a, "failed")] })
      const { gateClaims: gates, claims } = await next(world, [b], { claim: 5, gate: 5 })
      expect([names(world, gates), names(world, claims)]).toEqual([["c"], []])
    })

    it("claims rows of a run with groups, whose ids do not follow the order of nodes", async () => {
      const world = await setup(open)
      await world.start(workflow({ g: group, "g.x": { group: 0 }, a: {}, b: { after: ["a"] } }))
      const claims = await world.claim(5)
      expect(names(world, claims)).toEqual(["a"])
      const turn = await next(world, claims, { claim: 5 })
      expect(names(world, turn.claims)).toEqual(["b"])
      expect((await world.task(turn.claims[0]!.runId, "b")).status).toBe("dispatched")
    })
  })
}
