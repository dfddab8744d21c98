// Creation and pausing of runs.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import type { NewRun } from "../../contract/store.ts"
import { BEGIN, names, type Open, setup } from "../world.ts"

const one = workflow({ a: {} })
const fan = { foreach: { lit: [] }, reference: "items" }

export const runTests = (open: Open): void => {
  describe("a new run", () => {
    it("that is created again under its id, because a reply was lost, is the same run", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const [run, other] = [world.newRun(version), world.newRun(version)]
      const [first] = await world.store.createRuns([run])
      const again = await world.store.createRuns([run, other])
      expect(again).toMatchObject([
        { run: { id: run.id, seq: first!.run.seq }, created: true },
        { run: { id: other.id }, created: true },
      ])
      expect(await world.claim()).toHaveLength(2)
    })

    it("is running and has its rows", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] }, each: { fan } }, { priority: 8 }), {
        params: { x: 1 },
      })
      expect(run).toMatchObject({
        workflow: "test",
        version: 1,
        status: "running",
        paused: false,
        cancelling: null,
        trigger: "manual",
        params: { x: 1 },
        priority: 8,
        createdAt: iso(BEGIN),
        startedAt: iso(BEGIN),
        finishedAt: null,
        error: null,
        private: false,
        workingDir: null,
        hooksPending: 0,
        tasks: { pending: 2, dispatched: 0, running: 0, success: 0, failed: 0, skipped: 0, cancelled: 0 },
      })
      expect(await world.run(run.id)).toEqual(run)
      expect(await world.store.listRowStates(run.id)).toMatchObject([
        { node: 0, kind: "task", status: "pending", skipReason: null, childrenCreated: 0 },
        { node: 1, kind: "task" },
        { node: 2, kind: "fan" },
      ])
    })

    it("has the next number of its workflow, which finds it and is never used again", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const other = await world.deploy({ ...one, name: "other" })
      const numbersOf = async (...runs: NewRun[]): Promise<number[]> =>
        (await world.store.createRuns(runs)).map(({ run }) => run.number)
      const keyed = world.newRun(version, { idempotencyKey: "k" })
      expect(await numbersOf(world.newRun(version), world.newRun(other), keyed)).toEqual([1, 1, 2])
      expect(await numbersOf({ ...keyed, id: world.newRun(version).id })).toEqual([2])
      const last = world.newRun(version)
      expect(await numbersOf(last)).toEqual([3])
      expect(await world.store.findRunId({ workflow: "test", number: 3 })).toBe(last.id)
      expect(await world.store.findRunId({ workflow: "test", number: 4 })).toBeNull()
      expect(await world.store.findRunId({ workflow: "nothing", number: 1 })).toBeNull()
      await world.store.requestCancel(last.id, "cancel")
      await world.turn({})
      expect(await world.store.removeRun(last.id, 100)).toBe(true)
      expect(await world.store.findRunId({ workflow: "test", number: 3 })).toBeNull()
      expect(await numbersOf(world.newRun(version))).toEqual([4])
    })

    it("gets a number of its own when several are created at the same time", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const created = await Promise.all(
        Array.from({ length: 20 }, () => world.store.createRuns([world.newRun(version), world.newRun(version)])),
      )
      const numbers = created.flat().map(({ run }) => run.number)
      expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1))
    })

    it("with an idempotency key that the workflow has used returns the first run", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const other = await world.deploy({ ...one, name: "other" })
      const [first, second] = await world.store.createRuns([
        world.newRun(version, { idempotencyKey: "k" }),
        world.newRun(version, { idempotencyKey: "k" }),
      ])
      expect([first!.created, second!.created]).toEqual([true, false])
      expect(second!.run).toEqual(first!.run)
      const [third] = await world.store.createRuns([world.newRun(version, { idempotencyKey: "k" })])
      expect(third).toEqual({ run: first!.run, created: false })
      const more = await world.store.createRuns([
        world.newRun(other, { idempotencyKey: "k" }),
        world.newRun(version),
        world.newRun(version),
      ])
      expect(more.map(({ created }) => created)).toEqual([true, true, true])
      expect(await world.claim()).toHaveLength(4)
    })

    it("of an unknown version is rejected together with its batch", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const batch = [world.newRun(version), world.newRun({ ...version, versionId: 999 })]
      await expect(world.store.createRuns(batch)).rejects.toThrow("999")
      expect(await world.store.listRuns({ limit: 9 })).toEqual([])
    })
  })

  describe("max_active_runs", () => {
    const flow = workflow({ a: {} }, { maxActiveRuns: 2, timeoutMs: 60_000 })

    it("keeps more runs pending without rows, and starts the oldest when one ends", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow)
      const made = await world.store.createRuns(Array.from({ length: 5 }, () => world.newRun(version)))
      const runs = made.map(({ run }) => run)
      expect(runs.map(({ status }) => status)).toEqual(["running", "running", "pending", "pending", "pending"])
      expect(runs[2]).toMatchObject({ startedAt: null, tasks: { pending: 0 } })
      const [a] = await world.claim()
      world.clock.pass(1000)
      const { claims, events } = await world.turn({ changes: [world.ended(a!)], claim: 9 })
      expect(claims.map(({ runId }) => runId)).toEqual([runs[2]!.id])
      expect(events.filter(({ type }) => type === "run").map(({ runId, status }) => [runId, status])).toEqual([
        [runs[0]!.id, "success"],
        [runs[2]!.id, "running"],
      ])
      expect(await world.run(runs[2]!.id)).toMatchObject({ status: "running", startedAt: iso(BEGIN + 1000) })
      expect((await world.run(runs[3]!.id)).status).toBe("pending")
    })

    it("counts runs of that workflow only", async () => {
      const world = await setup(open)
      await world.start(flow)
      await world.start(flow)
      expect((await world.start({ ...flow, name: "other" })).status).toBe("running")
      expect((await world.start(flow)).status).toBe("pending")
    })

    it("starts the timeout of a run with the run", async () => {
      const world = await setup(open)
      const version = await world.deploy({ ...flow, maxActiveRuns: 1 })
      const [first, second] = await world.store.createRuns([world.newRun(version), world.newRun(version)])
      const [a] = await world.claim()
      world.clock.pass(50_000)
      await world.turn({ changes: [world.ended(a!)] })
      world.clock.pass(50_000)
      await world.turn()
      expect((await world.run(first!.run.id)).status).toBe("success")
      expect(await world.run(second!.run.id)).toMatchObject({ status: "running", cancelling: null })
      world.clock.pass(10_000)
      expect((await world.turn()).closed).toMatchObject([{ runId: second!.run.id, status: "failed" }])
    })

    it("cancels a pending run at once", async () => {
      const world = await setup(open)
      const version = await world.deploy({ ...flow, maxActiveRuns: 1 })
      const made = await world.store.createRuns([world.newRun(version), world.newRun(version), world.newRun(version)])
      const [, second, third] = made.map(({ run }) => run.id)
      expect(await world.store.requestCancel(second!, "cancel")).toBe(true)
      expect((await world.turn()).closed).toMatchObject([{ runId: second, status: "cancelled" }])
      expect(await world.run(second!)).toMatchObject({ status: "cancelled", startedAt: null, finishedAt: iso(BEGIN) })
      expect((await world.run(third!)).status).toBe("pending")
    })
  })

  describe("pause", () => {
    it("keeps ready rows from being claimed until the run is resumed", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { if: "true" }, c: { after: ["a"] } }))
      const [a] = await world.claim()
      expect(await world.store.setPaused(run.id, true)).toBe(true)
      expect((await world.run(run.id)).paused).toBe(true)
      const { claims, gateClaims: gates, rejected } = await world.turn({ changes: [world.ended(a!)], claim: 9, gate: 9 })
      expect({ claims, gates, rejected }).toEqual({ claims: [], gates: [], rejected: [] })
      expect((await world.task(run.id, "c")).parked).toBe("paused")
      expect(await world.store.setPaused(run.id, false)).toBe(true)
      const resumed = await world.turn({ claim: 9, gate: 9 })
      expect(names(world, [...resumed.claims, ...resumed.gateClaims])).toEqual(["c", "b"])
      expect((await world.run(run.id)).paused).toBe(false)
    })

    it("of one run does not affect others", async () => {
      const world = await setup(open)
      const first = await world.start(one)
      const second = await world.start(one)
      await world.store.setPaused(first.id, true)
      expect((await world.claim()).map(({ runId }) => runId)).toEqual([second.id])
    })

    it("of a finished or unknown run is rejected", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      expect(await world.store.setPaused(run.id, true)).toBe(false)
      expect(await world.store.setPaused(world.newRun(await world.deploy(one)).id, true)).toBe(false)
    })

    it("does not block the hooks of a run that finished in the meantime", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, "on_exit.0": {} }))
      const [a] = await world.claim()
      await world.store.setPaused(run.id, true)
      expect(names(world, (await world.turn({ changes: [world.ended(a!)], claim: 9 })).claims)).toEqual(["on_exit.0"])
    })
  })
}
