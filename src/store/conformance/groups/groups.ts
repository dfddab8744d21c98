// Groups: opening, counting down, gathering, cancelling and retrying at any depth.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { planRetry } from "../../../core/rules/runs/retry-plan.ts"
import { innerRows, limitsOf } from "../../../core/rules/runs/new-rows.ts"
import { group, workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { statesOf } from "../runs/property.ts"
import { expandAll, fence, names, type Open, setup, type World } from "../world.ts"

export const fan = { foreach: { lit: [] }, reference: "items" }

export const openChunks = (flow: CompiledWorkflow, claim: TaskClaim, size = 500): Change[] => {
  const chunks = innerRows(flow, claim.node, { id: claim.runId, private: false, priority: 5 }, size)
  const total = chunks.reduce((sum, rows) => sum + rows.length, 0)
  const limits = limitsOf(flow, claim.node, claim.runId)
  return chunks.map((rows, i) => ({ ...fence(claim), kind: "open_group", total, offset: i * size, rows, limits }))
}

/** Continues a group that was retried, or a fan-out that was interrupted. */
const goesOn = (flow: CompiledWorkflow, claim: TaskClaim): Change => {
  const limits = limitsOf(flow, claim.node, claim.runId)
  return { ...fence(claim), kind: "open_group", total: claim.childrenCreated, offset: claim.childrenCreated, rows: [], limits }
}

export const gathered = (claim: TaskClaim): Change => ({
  ...fence(claim),
  kind: "gather",
  status: claim.childrenFailed > 0 ? "failed" : "success",
  output: { inline: null },
})

/** Evaluates everything in the gate's lane until it is empty, with two items for each fan-out. */
export const evaluateAll = async (world: World, flow: CompiledWorkflow): Promise<void> => {
  for (let claims = await world.gate(); claims.length > 0; claims = await world.gate()) {
    const changes = claims.flatMap((claim) => {
      if (claim.childrenCreated > 0 && claim.childrenPending === 0) return [gathered(claim)]
      if (claim.childrenCreated > 0) return [goesOn(flow, claim)]
      if (claim.kind === "group") return openChunks(flow, claim)
      return [
        {
          ...expandAll(claim, ["a", "b"], limitsOf(flow, claim.node, claim.runId)),
          lane: flow.nodes[claim.node]!.executor === "group" ? "g" : "q:default",
        } as Change,
      ]
    })
    await world.turn({ changes })
  }
}

const flowOfTwo = workflow({ g: { ...group, fan }, "g.a": {}, "g.b": { after: ["g.a"] }, after: { after: ["g"] } })

export const groupTests = (open: Open): void => {
  describe("a group", () => {
    it("is opened into rows at its path, which unblock each other there", async () => {
      const world = await setup(open)
      const flow = workflow({ g: group, "g.a": {}, "g.b": { after: ["g.a"] }, after: { after: ["g"] } })
      const run = await world.start(flow)
      expect(run.tasks.pending).toBe(1)
      const [gate] = await world.gate()
      expect(gate).toMatchObject({ kind: "group", instanceCount: null, childrenCreated: 0 })
      const { events } = await world.turn({ changes: openChunks(flow, gate!) })
      expect(events).toMatchObject([{ task: "g", status: "running" }])
      expect(events[0]!.total).toBeUndefined()
      expect((await world.run(run.id)).tasks.pending).toBe(3)
      const [a] = await world.claim()
      expect(names(world, [a!])).toEqual(["g.a"])
      await world.turn({ changes: [world.ended(a!, "success", 1)] })
      const [b] = await world.claim()
      expect(b!.reads).toEqual(new Map([[1, { status: "success", output: { inline: 1 } }]]))
      await world.turn({ changes: [world.ended(b!)] })
      expect(await world.claim()).toEqual([])
      const [gather] = await world.gate()
      expect(gather).toMatchObject({ kind: "group", instanceCount: 2, childrenCreated: 2, childrenFailed: 0 })
      await world.turn({ changes: [gathered(gather!)] })
      expect(names(world, await world.claim())).toEqual(["after"])
    })

    it("with a fan-out has its tasks once per item, each with its path and its parent's item", async () => {
      const world = await setup(open)
      const parent = { parent: 0 }
      const flow = workflow({ g: { ...group, fan }, "g.a": parent, "g.b": { after: ["g.a"], ...parent } })
      const run = await world.start(flow)
      await evaluateAll(world, flow)
      const claims = await world.claim()
      expect(names(world, claims)).toEqual(["g.a[0]", "g.a[1]"])
      expect(claims.map(({ parentItem, instanceCount }) => [parentItem, instanceCount])).toEqual([
        ["a", null],
        ["b", null],
      ])
      await world.turn({ changes: [world.ended(claims[1]!)] })
      expect(names(world, await world.claim())).toEqual(["g.b[1]"])
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 1, dispatched: 2, success: 1 })
    })

    it("lets inner tasks read outer rows at the paths of those rows", async () => {
      const world = await setup(open)
      const flow = workflow({
        top: {},
        g: { ...group, fan, after: ["top"] },
        "g.near": {},
        "g.h": { ...group, fan, after: ["g.near"] },
        "g.h.leaf": { fan, reads: [0, 2] },
      })
      await world.start(flow)
      const [top] = await world.claim()
      await world.turn({ changes: [world.ended(top!, "success", "outside")] })
      await evaluateAll(world, flow)
      const near = await world.claim()
      await world.turn({ changes: near.map((claim) => world.ended(claim, "success", `near ${claim.path}`)) })
      await evaluateAll(world, flow)
      const leaves = await world.claim()
      expect(leaves.map(({ path, instanceCount }) => [path, instanceCount])).toHaveLength(8)
      const last = leaves.find(({ path }) => path === "1.0.1")!
      expect(last).toMatchObject({ instanceCount: 2, item: "b" })
      expect([...last.reads.values()].map(({ output }) => output)).toEqual([{ inline: "outside" }, { inline: "near 1" }])
    })

    it("opened in chunks continues where it stopped and loses no finish in between", async () => {
      const world = await setup(open)
      const flow = workflow({ g: group, "g.a": {}, "g.b": { after: ["g.a"] }, "g.c": { after: ["g.b"] }, "g.d": {} })
      const run = await world.start(flow)
      const [gate] = await world.gate()
      const chunks = openChunks(flow, gate!, 2)
      await world.turn({ changes: [chunks[0]!, { ...fence(gate!), kind: "release" }] })
      for (const early of await world.claim()) await world.turn({ changes: [world.ended(early)] })
      const [again] = await world.gate()
      expect(again).toMatchObject({ childrenCreated: 2, instanceCount: 4 })
      const { rejected } = await world.turn({ changes: [{ ...chunks[0]!, ...fence(again!) }] })
      expect(rejected).toHaveLength(1)
      await world.turn({ changes: [{ ...fence(again!), kind: "release" }] })
      const [third] = await world.gate()
      await world.turn({ changes: [{ ...chunks[1]!, ...fence(third!) }] })
      for (let claims = await world.claim(); claims.length > 0; claims = await world.claim())
        await world.turn({ changes: claims.map((claim) => world.ended(claim)) })
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 4, pending: 0 })
      expect(await world.gate()).toMatchObject([{ kind: "group", childrenCreated: 4, instanceCount: 4 }])
    })

    it("uses a slot of its limit from its opening until its finish", async () => {
      const world = await setup(open)
      const flow = workflow({ g: { ...group, fan, concurrency: 1 }, "g.a": {} })
      const run = await world.start(flow)
      await evaluateAll(world, flow)
      expect(names(world, await world.claim())).toEqual(["g.a[0]"])
      expect((await world.task(run.id, "g", "1")).parked).toMatchObject({ cap: 1, used: 1 })
      const [held] = (await world.store.listInFlight(world.holder)).filter(Boolean)
      await world.turn({ changes: [world.ended(held!)] })
      expect(await world.claim()).toEqual([])
      await evaluateAll(world, flow)
      expect(names(world, await world.claim())).toEqual(["g.a[1]"])
    })

    it("that a retry continues needs a slot like a new one, and its inner rows wait for it", async () => {
      const world = await setup(open)
      const inner = { "g.a": {}, "g.h": { ...group, after: ["g.a"] }, "g.h.b": { fan } }
      const flow = workflow({ g: { ...group, fan, concurrency: 1 }, ...inner })
      const run = await world.start(flow)
      const endAll = async (status: "success" | "failed"): Promise<string[]> => {
        const claims = await world.claim()
        await world.turn({ changes: claims.map((claim) => world.ended(claim, claim.node === 3 ? status : "success")) })
        await evaluateAll(world, flow)
        return names(world, claims)
      }
      const retried = async (): Promise<boolean> => {
        const plan = planRetry(flow, await world.run(run.id), await statesOf(world, run.id), {})
        return "reset" in plan && (await world.store.retryRun(run.id, plan.reset))
      }
      await evaluateAll(world, flow)
      for (const item of [0, 1]) {
        expect(await endAll("failed")).toEqual([`g.a[${item}]`])
        expect(await endAll("failed")).toEqual([`g.h.b[${item}.0]`, `g.h.b[${item}.1]`])
      }
      expect((await world.run(run.id)).status).toBe("failed")

      expect(await retried()).toBe(true)
      expect(await world.claim()).toEqual([])
      expect((await world.task(run.id, "g.h.b", "0.1")).parked).toBe("group")
      await evaluateAll(world, flow)
      expect((await world.task(run.id, "g", "1")).parked).toMatchObject({ cap: 1, used: 1 })
      expect(await endAll("success")).toEqual(["g.h.b[0.0]", "g.h.b[0.1]"])

      // A group that is cancelled while it waits for its slot keeps its results.
      await world.store.requestCancel(run.id, "cancel")
      for (let turns = 0; turns < 3; turns++) {
        const live = await world.store.listInFlight(world.holder)
        await world.turn({ changes: live.map((each) => world.ended(each, "cancelled")) })
        await evaluateAll(world, flow)
      }
      expect((await world.run(run.id)).status).toBe("cancelled")
      expect(await retried()).toBe(true)
      await evaluateAll(world, flow)
      expect(await endAll("success")).toEqual(["g.h.b[1.0]", "g.h.b[1.1]"])
      expect(await world.run(run.id)).toMatchObject({ status: "success", tasks: { success: 6, pending: 0 } })
    })

    it("that was skipped frees the slot for the next one", async () => {
      const world = await setup(open)
      const flow = workflow({ g: { ...group, fan, concurrency: 1 }, "g.a": {} })
      await world.start(flow)
      const [top] = await world.gate()
      await world.turn({ changes: [{ ...expandAll(top!, [1, 2, 3], limitsOf(flow, 0, top!.runId)), lane: "g" } as Change] })
      const [first] = await world.gate()
      expect(first!.path).toBe("0")
      await world.turn({ changes: [{ ...fence(first!), kind: "skip", skipReason: "waived", reason: "if" }] })
      expect((await world.gate()).map(({ path }) => path)).toEqual(["1"])
    })

    it("is cancelled with its run at every level", async () => {
      const world = await setup(open)
      const flow = workflow({ g: { ...group, fan }, "g.h": { ...group, fan }, "g.h.a": {}, "g.h.b": { after: ["g.h.a"] } })
      const run = await world.start(flow)
      await evaluateAll(world, flow)
      const [live, ...others] = await world.claim(2)
      await world.store.requestCancel(run.id, "cancel")
      await world.turn({ changes: others.map((claim) => world.ended(claim, "cancelled")) })
      expect((await world.run(run.id)).status).toBe("running")
      await world.turn({ changes: [world.ended(live!, "cancelled")] })
      for (let turns = 0; turns < 20; turns++) {
        const claims = await world.gate()
        await world.turn({ changes: claims.map((claim) => ({ ...gathered(claim), status: "cancelled" }) as Change) })
      }
      expect(await world.run(run.id)).toMatchObject({ status: "cancelled", tasks: { cancelled: 8, pending: 0 } })
    })

    it("with an overridden inner task unblocks the tasks below it", async () => {
      const world = await setup(open)
      const run = await world.start(flowOfTwo)
      await evaluateAll(world, flowOfTwo)
      const mark = { runId: run.id, name: "g.a", path: "1", status: "success", reason: "by hand" } as const
      const store = world.store as unknown as { markTask?: (input: typeof mark) => Promise<string> }
      if (store.markTask === undefined) return
      expect(await store.markTask(mark)).toBe("done")
      expect(names(world, await world.claim())).toEqual(["g.a[0]", "g.b[1]"])
    })

    it("lists inner tasks by name and path, and containers separately", async () => {
      const world = await setup(open)
      const run = await world.start(flowOfTwo)
      await evaluateAll(world, flowOfTwo)
      const list = await world.store.listTasks({ runId: run.id, limit: 100 })
      expect(list.map(({ name, path }) => `${name}[${path}]`).toSorted()).toEqual([
        "after[]",
        "g.a[0]",
        "g.a[1]",
        "g.b[0]",
        "g.b[1]",
      ])
      const pages: string[] = []
      for (let after = 0; ;) {
        const page = await world.store.listTasks({ runId: run.id, after, limit: 2, name: "g.b" })
        pages.push(...page.map(({ path }) => path))
        if (page.length < 2) break
        after = page.at(-1)!.row
      }
      expect(pages).toEqual(["0", "1"])
      expect(await world.store.listRowStates(run.id)).toHaveLength(2)
      const inner = await world.store.listInnerRowStates({ runId: run.id, limit: 100 })
      expect(inner.map(({ node, path, kind }) => `${node} ${path} ${kind}`).toSorted()).toEqual([
        "0 0 group",
        "0 1 group",
        "1 0 task",
        "1 1 task",
        "2 0 task",
        "2 1 task",
      ])
      const second = await world.store.listInnerRowStates({ runId: run.id, after: inner[3]!.row, limit: 100 })
      expect(second).toEqual(inner.slice(4))
    })
  })
}
