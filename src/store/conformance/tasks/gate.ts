// Decisions of the gate, and the edges between tasks.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import { BEGIN, fence, names, type Open, setup, WORK } from "../world.ts"

export const gateTests = (open: Open): void => {
  describe("the gate", () => {
    it("claims a row without counting an attempt", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" } }))
      const { gateClaims: gates, claims, events } = await world.turn({ gate: 9, claim: 9 })
      expect(gates[0]).toMatchObject({ node: 0, kind: "task", attempt: 0 })
      expect({ claims, events }).toEqual({ claims: [], events: [] })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "pending", attempt: 0, attemptId: gates[0]!.attemptId })
    })

    it("enqueues a row in its lane, where a claim starts the first attempt", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      const admit: Change = { ...fence(gate!), kind: "enqueue", lane: "q:gpu", limits: [] }
      const { claims, rejected } = await world.turn({ changes: [admit], claim: 9, lanes: ["q:gpu"] })
      expect(rejected).toEqual([])
      expect(claims[0]).toMatchObject({ row: gate!.row, attempt: 1 })
      expect(claims[0]!.attemptId).not.toBe(gate!.attemptId)
    })

    it("skips a row with a message and a skip reason", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "false" } }))
      const [gate] = await world.gate()
      const skip: Change = { ...fence(gate!), kind: "skip", skipReason: "waived", reason: "`if` is false" }
      const { closed, events } = await world.turn({ changes: [skip] })
      expect(closed).toEqual([{ runSeq: run.seq, runId: run.id, status: "success" }])
      expect(events[0]).toMatchObject({ task: "a", status: "skipped", attempt: 0, at: iso(BEGIN) })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "skipped",
        skipReason: "waived",
        error: "`if` is false",
        attemptId: null,
        lastAttemptState: null,
        finishedAt: iso(BEGIN),
      })
      expect((await world.run(run.id)).tasks).toMatchObject({ skipped: 1, pending: 0 })
    })

    it("fails a row that it cannot evaluate, without an attempt", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "nonsense" } }))
      const [gate] = await world.gate()
      await world.turn({ changes: [{ ...fence(gate!), kind: "fail", error: "no such name: nonsense" }] })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "failed",
        error: "no such name: nonsense",
        attempt: 0,
        attemptId: null,
      })
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "task a failed" })
    })

    it("reuses a cached output", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { cache: { key: "1", ttlMs: null } }, b: { after: ["a"] } }))
      const [gate] = await world.gate()
      const reuse: Change = { ...fence(gate!), kind: "reuse", output: { inline: [7] } }
      const { claims } = await world.turn({ changes: [reuse], claim: 9 })
      expect(claims[0]!.reads.get(0)).toEqual({ status: "success", output: { inline: [7] } })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "success",
        attempt: 0,
        attemptId: null,
        lastAttemptState: null,
      })
    })
  })

  describe("edges", () => {
    it("unblock a task when the last of its upstream tasks has finished", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] } }))
      const [a, b] = await world.claim()
      expect((await world.turn({ changes: [world.ended(a!)], claim: 9 })).claims).toEqual([])
      expect(names(world, (await world.turn({ changes: [world.ended(b!)], claim: 9 })).claims)).toEqual(["c"])
    })

    it("are counted together in one batch", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] }, d: { after: ["a"] } }))
      const ended = (await world.claim()).map((claim) => world.ended(claim))
      expect(names(world, (await world.turn({ changes: ended, claim: 9 })).claims)).toEqual(["c", "d"])
    })

    it("stay within their run", async () => {
      const world = await setup(open)
      const flow = workflow({ a: {}, b: { after: ["a"] } })
      const first = await world.start(flow)
      const second = await world.start(flow)
      const claims = await world.claim()
      await world.turn({ changes: [world.ended(claims.find((claim) => claim.runId === first.id)!)] })
      expect((await world.task(first.id, "b")).upstreamPending).toBe(0)
      expect((await world.task(second.id, "b")).upstreamPending).toBe(1)
    })

    it("move a plain task below a failure to the gate, with the counts of its upstream tasks", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] }, d: { after: ["c"] } }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(a!, "failed")] })
      const { claims, gateClaims: gates } = await world.turn({ changes: [world.ended(b!)], claim: 9, gate: 9 })
      expect(claims).toEqual([])
      expect(gates[0]).toMatchObject({ node: 2, upstream: { failed: 1, unmet: 0, waived: 0 } })
      const skip: Change = { ...fence(gates[0]!), kind: "skip", skipReason: "unmet", reason: "upstream failed" }
      const next = await world.turn({ changes: [skip], claim: 9, gate: 9 })
      expect(next.claims).toEqual([])
      expect(next.gateClaims[0]).toMatchObject({ node: 3, upstream: { failed: 0, unmet: 1, waived: 0 } })
      await world.turn({ changes: [{ ...fence(next.gateClaims[0]!), kind: "skip", skipReason: "unmet", reason: "" }] })
      expect(await world.run(run.id)).toMatchObject({
        status: "failed",
        tasks: { pending: 0, dispatched: 0, running: 0, success: 1, failed: 1, skipped: 2, cancelled: 0 },
      })
    })

    it("leave a plain task below a waived skip in its own lane", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { if: "false" }, b: { after: ["a"] } }))
      const [a] = await world.gate()
      const skip: Change = { ...fence(a!), kind: "skip", skipReason: "waived", reason: "" }
      const { claims } = await world.turn({ changes: [skip], claim: 9, gate: 9 })
      expect(claims[0]).toMatchObject({ node: 1, upstream: { failed: 0, unmet: 0, waived: 1 } })
      expect(claims[0]!.reads).toEqual(new Map([[0, { status: "skipped", output: null }]]))
    })

    it("count a cancelled upstream as failed", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { after: ["a"], rule: "all_done" } }))
      const [a] = await world.claim()
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(a!, "cancelled")], gate: 9 })
      expect(gates[0]!.upstream).toEqual({ failed: 1, unmet: 0, waived: 0 })
    })

    it("of a private run move a task to that run's gate", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] } }), { private: true })
      const lanes = [`p:${run.id}:w`]
      const gateLanes = [`p:${run.id}:g`]
      const { claims } = await world.turn({ claim: 9, lanes })
      const changes = [world.ended(claims[0]!, "failed")]
      expect((await world.turn({ changes, claim: 9, gate: 9, lanes: [...lanes, WORK], gateLanes })).gateClaims).toHaveLength(1)
    })
  })
}
