// Fan-out containers: expansion in chunks, instances, gathering.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import type { Json } from "../../../core/values/json.ts"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { BEGIN, expandAll, fence, names, type Open, setup, WORK, type World } from "../world.ts"

const fan = { foreach: { lit: [] }, reference: "items" }
const flow = workflow({ each: { fan }, after: { after: ["each"] } })

const chunk = (claim: TaskClaim, total: number, offset: number, items: Json[]): Change => ({
  ...fence(claim),
  kind: "expand",
  total,
  offset,
  items,
  lane: WORK,
  priority: 5,
  limits: [],
})

const gather = (claim: TaskClaim, status: "success" | "failed" | "cancelled", output: Json): Change => ({
  ...fence(claim),
  kind: "gather",
  status,
  output: { inline: output },
})

const container = async (world: World): Promise<TaskClaim> => (await world.gate())[0]!

export const fanOutTests = (open: Open): void => {
  describe("a fan-out", () => {
    it("is one container for the gate and has no tasks before its expansion", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      expect(await world.store.listTasks({ runId: run.id, limit: 9 })).toHaveLength(1)
      expect((await world.run(run.id)).tasks.pending).toBe(1)
      expect(await container(world)).toMatchObject({
        kind: "fan",
        path: "",
        instanceCount: null,
        childrenCreated: 0,
        childrenFailed: 0,
      })
    })

    it("creates its instances with their items in order and waits for them", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const items = ["x", { a: [1] }, null, 4, true]
      const { claims, events } = await world.turn({ changes: [expandAll(await container(world), items)], claim: 9, gate: 9 })
      expect(names(world, claims)).toEqual(["each[0]", "each[1]", "each[2]", "each[3]", "each[4]"])
      expect(claims.map(({ item, instanceCount, kind }) => ({ item, instanceCount, kind }))).toEqual(
        items.map((item) => ({ item, instanceCount: 5, kind: "task" })),
      )
      expect(events[0]).toMatchObject({ task: "each", path: "", status: "running", total: 5 })
      expect(await world.task(run.id, "each")).toMatchObject({ kind: "fan", status: "running", attemptId: null })
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 1, dispatched: 5 })
    })

    it("has instances with labels, by which they are found", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const labels = ["rome.csv", null, "oslo.csv", "rome.csv"]
      await world.turn({ changes: [{ ...expandAll(await container(world), [1, 2, 3, 4]), labels } as Change] })
      const tasks = await world.store.listTasks({ runId: run.id, name: "each", limit: 9 })
      expect(tasks.map(({ label }) => label)).toEqual(labels)
      const find = (label: string, limit = 9) => world.store.findPaths({ runId: run.id, name: "each", label, limit })
      expect(await find("rome.csv")).toEqual(["0", "3"])
      expect(await find("rome.csv", 1)).toEqual(["0"])
      expect(await find("oslo.csv")).toEqual(["2"])
      expect(await find("paris.csv")).toEqual([])
    })

    it("is gathered when its last instance has finished and only then unblocks downstream tasks", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const { claims } = await world.turn({ changes: [expandAll(await container(world), [1, 2, 3])], claim: 9 })
      const most = await world.turn({
        changes: claims.slice(1).map((c) => world.ended(c, "success", c.item)),
        gate: 9,
        claim: 9,
      })
      expect([...most.gateClaims, ...most.claims]).toEqual([])
      const last = await world.turn({ changes: [world.ended(claims[0]!, "failed")], gate: 9, claim: 9 })
      expect(last.claims).toEqual([])
      expect(last.gateClaims[0]).toMatchObject({ kind: "fan", instanceCount: 3, childrenCreated: 3, childrenFailed: 1 })
      const end = await world.turn({ changes: [gather(last.gateClaims[0]!, "success", [null, 2, 3])], claim: 9 })
      expect(end.events[0]).toMatchObject({ task: "each", path: "", status: "success", at: iso(BEGIN) })
      expect(end.claims[0]!.reads.get(0)).toEqual({ status: "success", output: { inline: [null, 2, 3] } })
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 2, failed: 1, dispatched: 1, pending: 0 })
    })

    it("that is gathered as failed fails the run, while a single failed instance does not close it", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const { claims } = await world.turn({ changes: [expandAll(await container(world), [1])], claim: 9 })
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(claims[0]!, "failed")], gate: 9 })
      expect((await world.run(run.id)).status).toBe("running")
      const failed: Change = {
        ...fence(gates[0]!),
        kind: "gather",
        status: "failed",
        output: { inline: [null] },
        error: "1 of 1",
      }
      expect((await world.turn({ changes: [failed] })).closed).toMatchObject([{ status: "failed" }])
      expect(await world.task(run.id, "each")).toMatchObject({ status: "failed", error: "1 of 1" })
      expect(await world.run(run.id)).toMatchObject({ error: "task each failed", tasks: { failed: 1, success: 0 } })
    })

    it("returns its outputs in index order and pages, null for an instance without success", async () => {
      const world = await setup(open)
      await world.start(flow)
      const expand = expandAll(
        await container(world),
        Array.from({ length: 12 }, (_, i) => i),
      )
      const { claims } = await world.turn({ changes: [expand], claim: 99 })
      await world.turn({
        changes: claims.map((c, i) => (i === 3 ? world.ended(c, "failed", "half") : world.ended(c, "success", i * 10))),
      })
      const [first, second] = [
        await world.store.childOutputs({ containerRow: expand.row, after: 0, limit: 10 }),
        await world.store.childOutputs({ containerRow: expand.row, after: claims[9]!.row, limit: 10 }),
      ]
      expect([...first, ...second].map(({ output }) => output)).toEqual(
        Array.from({ length: 12 }, (_, i) => (i === 3 ? null : { inline: i * 10 })),
      )
      expect(first.map(({ row }) => row)).toEqual(claims.slice(0, 10).map(({ row }) => row))
    })

    it("over an empty list is gathered without an expansion", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      await world.turn({ changes: [gather(await container(world), "success", [])] })
      expect(await world.run(run.id)).toMatchObject({ status: "success", tasks: { success: 0, pending: 0 } })
    })

    it("that is skipped creates no instances", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      await world.turn({ changes: [{ ...fence(await container(world)), kind: "skip", skipReason: "waived", reason: "" }] })
      expect(await world.run(run.id)).toMatchObject({ status: "success", tasks: { skipped: 0, pending: 0 } })
      expect(await world.task(run.id, "each")).toMatchObject({ status: "skipped" })
    })

    it("retries a single instance", async () => {
      const world = await setup(open)
      await world.start(flow)
      const { claims } = await world.turn({ changes: [expandAll(await container(world), [1, 2])], claim: 9 })
      const again = await world.turn({ changes: [world.again(claims[1]!, 0), world.ended(claims[0]!)], claim: 9, gate: 9 })
      expect(names(world, again.claims)).toEqual(["each[1]"])
      expect(again.gateClaims).toEqual([])
      expect((await world.turn({ changes: [world.ended(again.claims[0]!)], gate: 9 })).gateClaims).toHaveLength(1)
    })

    it("gives every instance the nodes that its task reads", async () => {
      const world = await setup(open)
      await world.start(workflow({ list: {}, each: { fan, after: ["list"] } }))
      const [list] = await world.claim()
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(list!, "success", [1, 2])], gate: 9 })
      expect(gates[0]!.reads.get(0)).toMatchObject({ output: { inline: [1, 2] } })
      const { claims } = await world.turn({ changes: [expandAll(gates[0]!, [1, 2])], claim: 9 })
      for (const claim of claims) expect(claim.reads.get(0)).toEqual({ status: "success", output: { inline: [1, 2] } })
    })
  })

  describe("an expansion in chunks", () => {
    it("keeps the container claimed until the last chunk, while instances already run", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const gate = await container(world)
      const first = await world.turn({ changes: [chunk(gate, 5, 0, [0, 1])], claim: 9, gate: 9 })
      expect(names(world, first.claims)).toEqual(["each[0]", "each[1]"])
      expect(first.gateClaims).toEqual([])
      expect(await world.task(run.id, "each")).toMatchObject({ status: "pending", attemptId: gate.attemptId })
      // Instances that finish early do not finish the container.
      const early = await world.turn({ changes: first.claims.map((claim) => world.ended(claim)), gate: 9 })
      expect(early.gateClaims).toEqual([])
      const rest = await world.turn({ changes: [chunk(gate, 5, 2, [2, 3]), chunk(gate, 5, 4, [4])], claim: 9, gate: 9 })
      expect(names(world, rest.claims)).toEqual(["each[2]", "each[3]", "each[4]"])
      const done = await world.turn({ changes: rest.claims.map((claim) => world.ended(claim)), gate: 9 })
      expect(done.gateClaims[0]).toMatchObject({ childrenCreated: 5, instanceCount: 5, childrenFailed: 0 })
    })

    it("applies each chunk once and in order", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const gate = await container(world)
      await world.turn({ changes: [chunk(gate, 4, 0, [0, 1])] })
      expect((await world.turn({ changes: [chunk(gate, 4, 0, [0, 1])] })).rejected).toEqual([fence(gate)])
      expect((await world.turn({ changes: [chunk(gate, 4, 3, [3])] })).rejected).toEqual([fence(gate)])
      expect((await world.run(run.id)).tasks.pending).toBe(3)
      expect((await world.turn({ changes: [chunk(gate, 4, 2, [2, 3])] })).rejected).toEqual([])
      expect((await world.run(run.id)).tasks.pending).toBe(5)
    })

    it("continues under a new attempt id when its holder died halfway", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const other = await world.join("other")
      const [old] = (await world.turn({ holder: other, gate: 9 })).gateClaims
      await world.turn({ holder: other, changes: [chunk(old!, 4, 0, [0, 1])] })
      await world.die(other)
      expect(await world.store.reapHolders(10)).toEqual([])
      const [gate] = await world.gate()
      expect(gate).toMatchObject({ row: old!.row, childrenCreated: 2, instanceCount: 4 })
      expect((await world.turn({ changes: [chunk(old!, 4, 2, [2, 3])] })).rejected).toEqual([fence(old!)])
      await world.turn({ changes: [chunk(gate!, 4, 2, [2, 3])] })
      expect(names(world, await world.claim())).toEqual(["each[0]", "each[1]", "each[2]", "each[3]"])
      expect((await world.run(run.id)).tasks).toMatchObject({ dispatched: 4, pending: 1 })
    })

    it("lists 3,000 instances in order", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const gate = await container(world)
      for (let offset = 0; offset < 3000; offset += 1000)
        await world.turn({
          changes: [
            chunk(
              gate,
              3000,
              offset,
              Array.from({ length: 1000 }, (_, i) => offset + i),
            ),
          ],
        })
      const seen: string[] = []
      for (let after = 0; ;) {
        const page = await world.store.listTasks({ runId: run.id, name: "each", after, limit: 700 })
        if (page.length === 0) break
        seen.push(...page.map(({ path }) => path))
        after = page.at(-1)!.row
      }
      expect(seen).toEqual(Array.from({ length: 3000 }, (_, i) => `${i}`))
      expect(await world.task(run.id, "each", "2999")).toMatchObject({ item: 2999, status: "pending" })
    })
  })
}
