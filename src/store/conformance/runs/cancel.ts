// Cancellation of runs by a user and by the run's timeout.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { workflow } from "../../../core/testing.ts"
import { expandAll, fence, type Open, setup } from "../world.ts"

const one = workflow({ a: {} })
const tasks = (count: number, input = {}) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, input]))
const fan = { foreach: { lit: [] }, reference: "items" }

export const cancelTests = (open: Open): void => {
  describe("cancel", () => {
    it("cancels pending rows at once and leaves in-flight attempts to their holder", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: { after: ["a"] }, d: { after: ["c"], rule: "all_done" } }))
      const [a] = await world.claim(1)
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(true)
      expect((await world.run(run.id)).cancelling).toBe("cancel")
      const turn = await world.turn({ claim: 9, gate: 9 })
      expect(turn).toMatchObject({
        claims: [],
        gateClaims: [],
        closed: [],
        more: false,
        cancelling: [{ runSeq: run.seq, reason: "cancel" }],
      })
      expect(turn.events.map(({ task, status }) => [task, status])).toEqual([
        ["b", "cancelled"],
        ["c", "cancelled"],
        ["d", "cancelled"],
      ])
      expect(await world.statuses(run.id)).toEqual({ a: "dispatched", b: "cancelled", c: "cancelled", d: "cancelled" })
      const end = await world.turn({ changes: [world.ended(a!, "cancelled")] })
      expect(end).toMatchObject({ cancelling: [], closed: [{ runId: run.id, status: "cancelled" }] })
      expect(await world.run(run.id)).toMatchObject({
        status: "cancelled",
        cancelling: null,
        tasks: { cancelled: 4, pending: 0, dispatched: 0 },
      })
    })

    it("keeps a success that was reported before the attempt was stopped", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] } }))
      const [a] = await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      const { closed, claims } = await world.turn({ changes: [world.ended(a!)], claim: 9 })
      expect({ closed: closed.length, claims }).toEqual({ closed: 1, claims: [] })
      expect(await world.statuses(run.id)).toEqual({ a: "success", b: "cancelled" })
      expect((await world.run(run.id)).status).toBe("cancelled")
    })

    it("is reported only to the holder of in-flight attempts", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const other = await world.join("other")
      await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      expect((await world.turn({ holder: other })).cancelling).toEqual([])
      expect((await world.turn()).cancelling).toHaveLength(1)
    })

    it("also cancels a row that returns through a retry or a release", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      const changes: Change[] = [world.again(a!, 60_000), { ...fence(b!), kind: "release" }]
      expect((await world.turn({ changes, claim: 9 })).closed).toHaveLength(1)
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", b: "cancelled" })
      expect(await world.task(run.id, "a")).toMatchObject({ availableAt: null, parked: null })
    })

    it("also cancels parked rows and rows that wait for a retry", async () => {
      const world = await setup(open)
      const run = await world.start(workflow(tasks(4), { concurrency: 1 }))
      const [first] = await world.claim()
      await world.turn({ changes: [world.again(first!, 60_000)] })
      await world.store.setPaused(run.id, true)
      await world.turn({ claim: 9 })
      await world.store.requestCancel(run.id, "cancel")
      expect(await world.turn({ claim: 9 })).toMatchObject({ closed: [{ status: "cancelled" }], nextDueMs: null })
      expect((await world.run(run.id)).tasks.cancelled).toBe(4)
    })

    it("waits for a container's in-flight instances before the gate gathers them", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan }, late: { fan, after: ["each"] } }))
      const [gate] = await world.gate()
      const { claims } = await world.turn({ changes: [expandAll(gate!, [1, 2, 3])], claim: 1 })
      await world.store.requestCancel(run.id, "cancel")
      const turn = await world.turn({ claim: 9, gate: 9 })
      expect({ gates: turn.gateClaims, closed: turn.closed }).toEqual({ gates: [], closed: [] })
      expect(await world.statuses(run.id)).toEqual({ "each[0]": "dispatched", "each[1]": "cancelled", "each[2]": "cancelled" })
      expect(await world.task(run.id, "late")).toMatchObject({ status: "cancelled" })
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(claims[0]!, "cancelled")], gate: 9 })
      expect(gates[0]).toMatchObject({ kind: "fan", childrenCreated: 3, childrenFailed: 3, run: { cancelling: "cancel" } })
      const gather: Change = {
        ...fence(gates[0]!),
        kind: "gather",
        status: "cancelled",
        output: { inline: [null, null, null] },
      }
      expect((await world.turn({ changes: [gather] })).closed).toMatchObject([{ status: "cancelled" }])
    })

    it("leaves a row to the gate that claimed it and cancels it afterwards", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" }, each: { fan } }))
      const [a, each] = await world.gate()
      await world.store.requestCancel(run.id, "cancel")
      expect(await world.turn({ claim: 9, gate: 9 })).toMatchObject({ closed: [], gateClaims: [] })
      const admit: Change = { ...fence(a!), kind: "enqueue", lane: "q:default", limits: [] }
      const { rejected, claims } = await world.turn({ changes: [admit, expandAll(each!, [1, 2])], claim: 9 })
      expect({ rejected, claims }).toEqual({ rejected: [], claims: [] })
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", "each[0]": "cancelled", "each[1]": "cancelled" })
      const { gateClaims: gates } = await world.turn({ gate: 9 })
      const gather: Change = { ...fence(gates[0]!), kind: "gather", status: "cancelled", output: { inline: [null, null] } }
      expect((await world.turn({ changes: [gather] })).closed).toHaveLength(1)
    })

    it("gathers a fan-out of a paused run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const [gate] = await world.gate()
      const { claims } = await world.turn({ changes: [expandAll(gate!, [1])], claim: 1 })
      await world.store.setPaused(run.id, true)
      expect((await world.turn({ changes: [world.ended(claims[0]!)], gate: 9 })).gateClaims).toEqual([])
      await world.store.requestCancel(run.id, "cancel")
      expect((await world.turn({ gate: 9 })).gateClaims).toMatchObject([{ kind: "fan", run: { cancelling: "cancel" } }])
    })

    it("cancels a fan-out whose gate died while it created instances", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const other = await world.join("other")
      const [gate] = (await world.turn({ holder: other, gate: 9 })).gateClaims
      const part: Change = { ...expandAll(gate!, [0, 1]), total: 4 } as Change
      const { claims } = await world.turn({ changes: [part], claim: 1 })
      await world.store.requestCancel(run.id, "cancel")
      await world.die(other)
      await world.store.reapHolders(10)
      await world.turn({ claim: 9, gate: 9 })
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(claims[0]!, "cancelled")], gate: 9 })
      expect(gates[0]).toMatchObject({ childrenCreated: 2, instanceCount: 4, childrenPending: 0, childrenFailed: 2 })
      const gather: Change = { ...fence(gates[0]!), kind: "gather", status: "cancelled", output: { inline: [null, null] } }
      expect((await world.turn({ changes: [gather] })).closed).toHaveLength(1)
      expect((await world.run(run.id)).tasks).toMatchObject({ cancelled: 2, pending: 0 })
    })

    it("cancels 5,000 pending rows in bounded batches", async () => {
      const world = await setup(open)
      const run = await world.start(workflow(tasks(5000)))
      await world.store.requestCancel(run.id, "cancel")
      const seen: number[] = []
      for (let more = true; more;) {
        const turn = await world.turn()
        seen.push(turn.events.filter(({ type }) => type === "task").length)
        more = turn.more
      }
      expect(Math.max(...seen)).toBeLessThanOrEqual(1000)
      expect(seen.reduce((a, b) => a + b)).toBe(5000)
      expect(await world.run(run.id)).toMatchObject({ status: "cancelled", tasks: { cancelled: 5000, pending: 0 } })
    })

    it("is rejected for a finished or unknown run and can be repeated", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(true)
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(true)
      await world.turn()
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(false)
      expect(await world.store.requestCancel(world.newRun(await world.deploy(one)).id, "cancel")).toBe(false)
    })
  })

  describe("a run's timeout", () => {
    const flow = workflow({ a: {}, b: { after: ["a"] } }, { timeoutMs: 90_000 })

    it("cancels the unfinished tasks and fails the run", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const claimed = await world.turn({ claim: 9 })
      expect(claimed.nextDueMs).toBe(90_000)
      world.clock.pass(90_000)
      const turn = await world.turn({ claim: 9 })
      expect(turn).toMatchObject({ cancelling: [{ runSeq: run.seq, reason: "timeout" }], nextDueMs: null })
      await world.turn({ changes: [world.ended(claimed.claims[0]!, "cancelled")] })
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "timed out after 90s" })
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", b: "cancelled" })
    })

    it("does not affect a run that finished in time", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }, { timeoutMs: 1000 }))
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      world.clock.pass(1000)
      expect(await world.turn()).toMatchObject({ closed: [], nextDueMs: null })
      expect(await world.run(run.id)).toMatchObject({ status: "success", error: null })
    })
  })
}
