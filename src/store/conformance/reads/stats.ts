// Overridden outcomes, holders of slots, and counts of pending work.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { innerRows, limitsOf } from "../../../core/rules/runs/new-rows.ts"
import { group, workflow } from "../../../core/testing.ts"
import type { StatsStore } from "../../contract/stats.ts"
import type { Store } from "../../contract/store.ts"
import { expandAll, fence, names, type Open, setup, type World } from "../world.ts"

const fan = { foreach: { lit: [] }, reference: "items" }

type Seen = World<Store & StatsStore>

export const statsTests = (open: Open<Store & StatsStore>): void => {
  const mark = (world: Seen, runId: RunId, name: string, status: "success" | "failed", path = "") =>
    world.store.overrideOutcome({ runId, name, path, status, reason: "by hand" })

  it("open runs are counted, and finished ones are listed, by workflow", async () => {
    const world = await setup(open)
    const run = await world.start(workflow({ a: {} }, { name: "one" }))
    await world.start(workflow({ a: {} }, { name: "two", maxActiveRuns: 1 }))
    await world.start(workflow({ a: {} }, { name: "two", maxActiveRuns: 1 }))
    const before = iso(world.clock.now())
    const byName = (rows: { workflow: string; status: string }[]) =>
      rows.toSorted((a, b) => `${a.workflow} ${a.status}`.localeCompare(`${b.workflow} ${b.status}`))
    expect(byName(await world.store.countActiveRuns())).toEqual([
      { workflow: "one", status: "running", count: 1 },
      { workflow: "two", status: "pending", count: 1 },
      { workflow: "two", status: "running", count: 1 },
    ])
    world.clock.pass(5000)
    await world.store.overrideOutcome({ runId: run.id, name: "a", path: "", status: "success", reason: "by hand" })
    await world.turn()
    const { startedAt, finishedAt } = await world.run(run.id)
    const all = { after: before, until: iso(world.clock.now()), limit: 9 }
    const finished = { workflow: "one", status: "success", startedAt, finishedAt, idleMs: 0 }
    expect(await world.store.listFinishedRuns(all)).toEqual([finished])
    expect(await world.store.listFinishedRuns({ ...all, after: finishedAt! })).toEqual([])
    expect(await world.store.listFinishedRuns({ ...all, until: before })).toEqual([])
  })

  describe("an override", () => {
    it("finishes a pending task and unblocks downstream tasks", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] }, c: { after: ["b"] } }))
      expect(await mark(world, run.id, "b", "success")).toBe("done")
      expect(await mark(world, run.id, "a", "success")).toBe("done")
      expect(names(world, await world.claim())).toEqual(["c"])
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 2, dispatched: 1, pending: 0 })
    })

    it("is rejected while a retry of the run waits for its place", async () => {
      const world = await setup(open)
      const version = await world.deploy(workflow({ a: {}, b: { after: ["a"] } }, { maxActiveRuns: 1 }))
      const [first] = await world.store.createRuns([world.newRun(version), world.newRun(version)])
      const { id } = first!.run
      await mark(world, id, "a", "failed")
      await mark(world, id, "b", "failed")
      await world.turn()
      await world.store.retryRun(id, { rows: [] })
      expect((await world.run(id)).status).toBe("pending")
      expect(await mark(world, id, "a", "success")).toBe("retry_waits")
      expect(await world.statuses(id)).toEqual({ a: "failed", b: "failed" })
    })

    it("of a pending task as failed fails its run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] } }))
      await mark(world, run.id, "a", "failed")
      expect(await world.task(run.id, "a")).toMatchObject({ status: "failed", error: "by hand", attempt: 0 })
      const { gateClaims: gates } = await world.turn({ gate: 9 })
      expect(names(world, gates)).toEqual(["b"])
      const { closed } = await world.turn({
        changes: [{ ...fence(gates[0]!), kind: "skip", skipReason: "unmet", reason: "a failed" }],
      })
      expect(closed).toMatchObject([{ status: "failed" }])
      expect(await world.run(run.id)).toMatchObject({ error: "task a failed", tasks: { failed: 1, skipped: 1 } })
    })

    it("closes the run when no other task is open", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      await mark(world, run.id, "a", "success")
      expect((await world.turn()).closed).toMatchObject([{ runId: run.id, status: "success" }])
    })

    it("is rejected for a task in flight or unknown", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { if: "true" }, each: { fan } }))
      const [a] = await world.claim()
      const gates = await world.gate()
      for (const name of ["a", "b", "each"]) expect(await mark(world, run.id, name, "success")).toBe("in_flight")
      expect(await mark(world, run.id, "nobody", "success")).toBe("not_found")
      expect(await mark(world, run.id, "a", "success", "7")).toBe("not_found")
      expect(await mark(world, world.newRun(await world.deploy(workflow({ a: {} }))).id, "a", "success")).toBe("not_found")
      const { rejected } = await world.turn({
        changes: [world.ended(a!), ...gates.map((gate) => ({ ...fence(gate), kind: "release" }) as const)],
      })
      expect(rejected).toEqual([])
    })

    it("of a finished task updates the run's counters and status", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(a!, "failed"), world.ended(b!)] })
      expect((await world.run(run.id)).status).toBe("failed")
      expect(await mark(world, run.id, "a", "success")).toBe("done")
      expect(await world.run(run.id)).toMatchObject({ status: "success", error: null, tasks: { success: 2, failed: 0 } })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "success", error: null, attempt: 1 })
      expect(await mark(world, run.id, "b", "failed")).toBe("done")
      expect(await world.run(run.id)).toMatchObject({
        status: "failed",
        error: "task b failed",
        tasks: { success: 1, failed: 1 },
      })
    })

    it("of a finished task updates the tasks that still wait below it", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] } }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(a!, "failed")] })
      await mark(world, run.id, "a", "success")
      await world.turn({ changes: [world.ended(b!)] })
      const [c] = await world.gate()
      expect(c!.upstream).toEqual({ failed: 0, unmet: 0, waived: 0 })
      expect(await world.run(run.id)).toMatchObject({ status: "running", tasks: { success: 2, failed: 0 } })
    })

    it("of a finished task as failed updates the tasks that wait below it", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] } }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      await mark(world, run.id, "a", "failed")
      await world.turn({ changes: [world.ended(b!)] })
      expect(await world.claim()).toEqual([])
      expect((await world.gate())[0]!.upstream).toEqual({ failed: 1, unmet: 0, waived: 0 })
    })

    it("of an instance updates its container", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const [gate] = await world.gate()
      await world.turn({ changes: [expandAll(gate!, [1, 2])] })
      const [first] = await world.claim(1)
      await world.turn({ changes: [world.ended(first!, "failed")] })
      await mark(world, run.id, "each", "success", "0")
      await mark(world, run.id, "each", "success", "1")
      const [gather] = await world.gate()
      expect(gather).toMatchObject({ kind: "fan", childrenFailed: 0, instanceCount: 2 })
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 2, failed: 0 })
    })

    it("unparks a sibling in place of the overridden task", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: {} }, { concurrency: 1 }))
      const [a] = await world.claim()
      await mark(world, run.id, "b", "success")
      expect(names(world, (await world.turn({ changes: [world.ended(a!)], claim: 9 })).claims)).toEqual(["c"])
    })
  })

  it("lists the open groups that use the slots of their limit", async () => {
    const world = await setup(open)
    const flow = workflow({ g: { ...group, fan, concurrency: 1 }, "g.a": {} })
    const run = await world.start(flow)
    const limits = limitsOf(flow, 0, run.id)
    const [gate] = await world.gate()
    await world.turn({ changes: [{ ...expandAll(gate!, [1, 2], limits), lane: "g" } as Change] })
    expect(await world.store.slotUsers(limits[0]!.key, 9)).toEqual([])
    const [first] = await world.gate()
    const [rows] = innerRows(flow, 0, { id: run.id, private: false, priority: 5 }, 9)
    await world.turn({ changes: [{ ...fence(first!), kind: "open_group", total: 1, offset: 0, rows: rows!, limits }] })
    expect(await world.store.slotUsers(limits[0]!.key, 9)).toEqual(["g[0]"])
  })

  it("lists the tasks that use the slots of a limit", async () => {
    const world = await setup(open)
    const run = await world.start(workflow({ each: { fan, concurrency: 2 } }))
    const [gate] = await world.gate()
    const limit = { key: `t:${run.id}:0`, cap: 2 }
    await world.turn({ changes: [expandAll(gate!, [1, 2, 3], [limit])] })
    expect(await world.store.slotUsers(limit.key, 9)).toEqual([])
    await world.claim()
    expect(await world.store.slotUsers(limit.key, 9)).toEqual(["each[0]", "each[1]"])
    expect(await world.store.slotUsers(limit.key, 1)).toEqual(["each[0]"])
    expect(await world.store.slotUsers("q:default", 9)).toEqual(["each[0]", "each[1]"])
    expect(await world.store.slotUsers("r:nobody", 9)).toEqual([])
  })

  it("counts pending work", async () => {
    const world = await setup(open)
    const empty = await world.store.stats()
    expect(empty).toMatchObject({ runs: { pending: 0, running: 0 }, ready: [], running: 0, oldestReadyMs: null })
    expect(empty.databaseBytes).toBeGreaterThan(0)
    const flow = workflow({ a: {}, b: {}, c: { queue: "other" }, d: { after: ["a"] } }, { maxActiveRuns: 1 })
    await world.start(flow)
    await world.start(flow)
    await world.claim(1)
    world.clock.pass(250)
    expect(await world.store.stats()).toMatchObject({
      runs: { pending: 1, running: 1 },
      ready: [
        { queue: "default", count: 1 },
        { queue: "other", count: 1 },
      ],
      running: 1,
      oldestReadyMs: 250,
    })
  })

  describe("activity", () => {
    const minute = (number: number, more = {}) => ({
      minute: number,
      success: 1,
      failed: 0,
      dispatchP50Ms: null,
      dispatchP95Ms: null,
      ready: null,
      running: null,
      ...more,
    })

    it("is added up by minute and forgotten after a while", async () => {
      const { store } = await setup(open)
      expect(await store.listActivity(0)).toEqual([])
      const seen = { dispatchP50Ms: 5, dispatchP95Ms: 9, ready: 3, running: 1 }
      await store.addActivity([minute(100), minute(101, { failed: 2, ...seen })], 10)
      await store.addActivity([minute(101, { success: 4, dispatchP50Ms: 3, dispatchP95Ms: 20 })], 10)
      expect(await store.listActivity(0)).toEqual([
        minute(100),
        minute(101, { ...seen, success: 5, failed: 2, dispatchP95Ms: 20 }),
      ])
      expect(await store.listActivity(101)).toHaveLength(1)
      await store.addActivity([minute(110)], 10)
      expect((await store.listActivity(0)).map((each) => each.minute)).toEqual([101, 110])
    })
  })
}
