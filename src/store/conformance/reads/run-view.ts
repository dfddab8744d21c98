// Data of run views: instances in pages, and counts.

import { describe, expect, it } from "vitest"
import { workflow } from "../../../core/testing.ts"
import type { RunViewStore } from "../../contract/run-view.ts"
import type { Store } from "../../contract/store.ts"
import { expandAll, fence, type Open, setup } from "../world.ts"

const fan = { foreach: { lit: [] }, reference: "items" }

export const runViewTests = (open: Open<Store & RunViewStore>): void => {
  describe("a run view", () => {
    it("contains every instance once, by node and path, in pages, and no containers", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, each: { fan }, z: {} }))
      const other = await world.start(workflow({ b: {} }))
      const gates = await world.gate()
      const gate = gates.find(({ runId }) => runId === run.id)!
      await world.turn({ changes: [expandAll(gate, [1, 2, 3])] })
      const places: string[] = []
      for (let after: { node: number; path: string } | undefined; ;) {
        const page = await world.store.listInstances({ runId: run.id, limit: 2, ...(after !== undefined && { after }) })
        if (page.length === 0) break
        places.push(...page.map(({ node, path }) => `${node}[${path}]`))
        after = page.at(-1)!
      }
      expect(places).toEqual(["0[]", "1[0]", "1[1]", "1[2]", "2[]"])
      expect(await world.store.listInstances({ runId: other.id, limit: 9 })).toHaveLength(1)
    })

    it("contains the previous attempts, oldest first", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const claims = await world.claim()
      await world.turn({ changes: claims.map((claim) => world.again(claim, 0)) })
      const [again] = await world.claim(1)
      await world.turn({ changes: [world.ended(again!)] })
      const [a, b] = await world.store.listInstances({ runId: run.id, limit: 9 })
      expect(a).toMatchObject({ status: "success", attempt: 2, past: [{ attempt: 1, state: "failed" }] })
      expect(b).toMatchObject({ status: "pending", attempt: 1, past: [{ attempt: 1, state: "failed" }] })
    })

    it("counts rows by node, kind and status, with the first start and the last finish", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, each: { fan } }))
      const [gate] = await world.gate()
      await world.turn({ changes: [expandAll(gate!, [1, 2])] })
      const claims = await world.claim()
      const [first, second] = claims.filter(({ node }) => node === 1)
      await world.turn({ changes: [world.ended(first!), { ...fence(second!), kind: "started", at: world.clock.now() }] })
      const counts = (await world.store.countRows(run.id)).map(
        ({ node, kind, status, count }) => `${node} ${kind} ${status} ${count}`,
      )
      expect(counts.toSorted()).toEqual(["0 task dispatched 1", "1 fan running 1", "1 task running 1", "1 task success 1"])
      const ended = (await world.store.countRows(run.id)).find(({ status }) => status === "success")
      expect(ended?.finishedAt).toMatch(/^\d{4}-\d\d-\d\dT/)
      expect(await world.store.countRows(world.newRun(await world.deploy(workflow({ a: {} }))).id)).toEqual([])
    })
  })
}
