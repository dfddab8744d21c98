// Groups with a timeout: when the timeout has passed, every unfinished row in the group is cancelled, and no other row.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { planRetry } from "../../../core/rules/runs/retry-plan.ts"
import { group, workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import type { TaskClaim, RunRow } from "../../contract/store.ts"
import { gathered, evaluateAll, openChunks } from "./groups.ts"
import { statesOf } from "../runs/property.ts"
import { expandAll, fence, names, type Open, setup, type World } from "../world.ts"

const fan = { foreach: { lit: [] }, reference: "items" }
const timed = { ...group, timeoutMs: 60_000 }
const MINUTE = 60_000

const plain = workflow({ g: timed, "g.a": {}, "g.b": { after: ["g.a"] }, after: { after: ["g"], rule: "all_done" } })

/** Starts a run, opens its groups and claims every ready task. */
const begin = async (world: World, flow: CompiledWorkflow): Promise<{ run: RunRow; claims: TaskClaim[] }> => {
  const run = await world.start(flow)
  await evaluateAll(world, flow)
  return { run, claims: await world.claim() }
}

const cancelled = (world: World, claim: TaskClaim): Change => world.ended(claim, "cancelled")

export const groupTimeoutTests = (open: Open): void => {
  describe("a group with a timeout", () => {
    it("requests an advance when its timeout is due, and none if it finished before", async () => {
      const world = await setup(open)
      const run = await world.start(plain)
      const [gate] = await world.gate()
      const opened = await world.turn({ changes: openChunks(plain, gate!) })
      expect(opened.nextDueMs).toBe(MINUTE)
      world.clock.pass(20_000)
      const [a] = await world.claim()
      const { nextDueMs } = await world.turn({ changes: [world.ended(a!)] })
      expect(nextDueMs).toBe(40_000)
      const [b] = await world.claim()
      await world.turn({ changes: [world.ended(b!)] })
      await evaluateAll(world, plain)
      expect((await world.turn()).nextDueMs).toBeNull()
      expect(await world.task(run.id, "g")).toMatchObject({ status: "success", error: null })
    })

    it("past its timeout cancels its waiting rows, stops its attempts and fails when they have ended, while the run continues", async () => {
      const world = await setup(open)
      const { run, claims } = await begin(world, plain)
      world.clock.pass(MINUTE - 1)
      expect(await world.turn()).toMatchObject({ stopRequests: [], nextDueMs: 1 })
      world.clock.pass(1)
      const over = await world.turn({ claim: 9, gate: 9 })
      expect(over).toMatchObject({ claims: [], gateClaims: [], stopRequests: [claims[0]!.attemptId], nextDueMs: null })
      expect(over.events).toMatchObject([{ task: "g.b", status: "cancelled" }])
      expect(await world.store.listInFlight(world.holder)).toMatchObject([{ attemptId: claims[0]!.attemptId, stop: "cancel" }])
      expect((await world.task(run.id, "g")).status).toBe("running")
      const dead = await world.turn({ changes: [cancelled(world, claims[0]!)], gate: 9 })
      expect(dead).toMatchObject({ stopRequests: [], gateClaims: [{ kind: "group", childrenFailed: 2 }] })
      const ended = await world.turn({ changes: [{ ...gathered(dead.gateClaims[0]!), error: "task a failed" } as Change] })
      expect(ended.events).toMatchObject([{ task: "g", status: "failed", error: "timed out after 1m" }])
      expect(await world.task(run.id, "g")).toMatchObject({ status: "failed", error: "timed out after 1m" })
      expect(await world.statuses(run.id)).toEqual({ "g.a": "cancelled", "g.b": "cancelled", after: "pending" })
      expect((await world.run(run.id)).tasks).toMatchObject({ cancelled: 2, pending: 1 })
    })

    it("keeps its successes and succeeds itself if all of its tasks did", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.a": {} })
      const { run, claims } = await begin(world, flow)
      world.clock.pass(MINUTE)
      await world.turn()
      await world.turn({ changes: [world.ended(claims[0]!, "success", 1)] })
      await evaluateAll(world, flow)
      expect(await world.run(run.id)).toMatchObject({ status: "success" })
    })

    it.each<[string, (world: World, claim: TaskClaim) => Change]>([
      ["would be tried again", (world, claim) => world.again(claim, 5000)],
      ["was lost", (world, claim) => world.again(claim, 0, "lost")],
      ["is given back", (_, claim) => ({ ...fence(claim), kind: "release" })],
      [
        "would wait",
        (_, claim) => ({ ...fence(claim), kind: "wait", waitingOn: { kind: "callback", since: 0 }, delayMs: null }),
      ],
    ])("past its timeout finally ends an attempt that %s", async (_, change) => {
      const world = await setup(open)
      const { run, claims } = await begin(world, plain)
      world.clock.pass(MINUTE)
      await world.turn()
      const { rejected, stopRequests } = await world.turn({ changes: [change(world, claims[0]!)] })
      expect({ rejected, stopRequests: stopRequests }).toEqual({ rejected: [], stopRequests: [] })
      expect(await world.task(run.id, "g.a")).toMatchObject({ status: "cancelled", attempt: 1 })
      expect((await world.gate()).map(({ kind }) => kind)).toEqual(["group"])
    })

    it("past its timeout cancels rows that a gate still enqueues, before they are claimed", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.a": { gated: true }, "g.each": { fan }, "g.h": group, "g.h.x": {} })
      const run = await world.start(flow)
      const [gate] = await world.gate()
      await world.turn({ changes: openChunks(flow, gate!) })
      const [a, each, h] = await world.gate()
      world.clock.pass(MINUTE)
      expect(await world.turn({ claim: 9 })).toMatchObject({ claims: [], stopRequests: [] })
      const changes: Change[] = [
        { ...fence(a!), kind: "enqueue", lane: "q:default", limits: [] },
        expandAll(each!, [1, 2]),
        ...openChunks(flow, h!),
      ]
      expect(await world.turn({ changes, claim: 9 })).toMatchObject({ rejected: [], claims: [] })
      await evaluateAll(world, flow)
      expect(await world.statuses(run.id)).toEqual({
        "g.a": "cancelled",
        "g.each[0]": "cancelled",
        "g.each[1]": "cancelled",
        "g.h.x": "cancelled",
      })
      for (const inner of ["g.each", "g.h"]) expect((await world.task(run.id, inner)).status).toBe("cancelled")
      expect(await world.task(run.id, "g")).toMatchObject({ status: "failed", error: "timed out after 1m" })
      expect((await world.run(run.id)).status).toBe("failed")
    })

    it("past its timeout resumes its waiting rows, also in a paused run", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.nap": { gated: true } })
      const run = await world.start(flow)
      const [gate] = await world.gate()
      await world.turn({ changes: openChunks(flow, gate!) })
      const [nap] = await world.gate()
      await world.turn({
        changes: [{ ...fence(nap!), kind: "wait", waitingOn: { kind: "sleep", ms: 3_600_000 }, delayMs: 3_600_000 }],
      })
      await world.store.setPaused(run.id, true)
      world.clock.pass(MINUTE)
      await world.turn()
      const [woken] = await world.gate()
      expect(woken).toMatchObject({ attemptId: nap!.attemptId, wait: { on: { kind: "sleep" }, mustEnd: true } })
      await world.turn({ changes: [cancelled(world, woken!)] })
      expect((await world.task(run.id, "g.nap")).status).toBe("cancelled")
    })

    it("past its timeout asks the holder of a waiting row to release it", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.file": { gated: true } })
      const run = await world.start(flow)
      const [gate] = await world.gate()
      await world.turn({ changes: openChunks(flow, gate!) })
      const [file] = await world.gate()
      const waitingOn = { kind: "condition", condition: "/data/in.csv", everyMs: 10_000 } as const
      await world.turn({ changes: [{ ...fence(file!), kind: "wait", waitingOn, delayMs: 0 }] })
      const [held] = await world.gate()
      world.clock.pass(MINUTE)
      await world.turn()
      expect((await world.turn()).stopRequests).toEqual([held!.attemptId])
      await world.turn({ changes: [{ ...fence(held!), kind: "release" }] })
      const [woken] = await world.gate()
      expect(woken).toMatchObject({ attemptId: file!.attemptId, wait: { mustEnd: true } })
      await world.turn({ changes: [cancelled(world, woken!)] })
      expect((await world.task(run.id, "g.file")).status).toBe("cancelled")
      expect((await world.turn()).stopRequests).toEqual([])
    })

    it("is timed per item, also inside other groups", async () => {
      const world = await setup(open)
      const flow = workflow({ o: { ...group, fan }, "o.g": timed, "o.g.a": {}, "o.g.b": { after: ["o.g.a"] }, "o.z": {} })
      const { run, claims } = await begin(world, flow)
      const byName = new Map(names(world, claims).map((name, i) => [name, claims[i]!]))
      await world.turn({ changes: [world.ended(byName.get("o.g.a[0]")!)] })
      const [b] = await world.claim()
      await world.turn({ changes: [world.ended(b!)] })
      await evaluateAll(world, flow)
      world.clock.pass(MINUTE)
      expect((await world.turn()).stopRequests).toEqual([byName.get("o.g.a[1]")!.attemptId])
      await world.turn({ changes: [cancelled(world, byName.get("o.g.a[1]")!)] })
      await evaluateAll(world, flow)
      expect(await world.statuses(run.id)).toMatchObject({
        "o.g.b[0]": "success",
        "o.g.b[1]": "cancelled",
        "o.z[1]": "dispatched",
      })
      expect((await world.task(run.id, "o.g", "0")).status).toBe("success")
      expect(await world.task(run.id, "o.g", "1")).toMatchObject({ status: "failed", error: "timed out after 1m" })
    })

    it("frees the slots of the attempts that it ends", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.a": {}, z: {} }, { concurrency: 1 })
      const { claims } = await begin(world, flow)
      expect(names(world, claims)).toEqual(["z"])
      world.clock.pass(MINUTE)
      await world.turn()
      const flow2 = workflow({ g: timed, "g.a": {}, "g.b": {}, z: { priority: 1 } }, { concurrency: 1, name: "second" })
      const second = await begin(world, flow2)
      expect(names(world, second.claims)).toEqual(["g.a"])
      world.clock.pass(MINUTE)
      await world.turn({ claim: 9 })
      expect(names(world, (await world.turn({ changes: [cancelled(world, second.claims[0]!)], claim: 9 })).claims)).toEqual([
        "z",
      ])
    })

    it("past its timeout is visible to the server that reaps a dead holder's attempts", async () => {
      const world = await setup(open)
      await world.start(plain)
      await evaluateAll(world, plain)
      const other = await world.join("other")
      const { claims } = await world.turn({ holder: other, claim: 9 })
      world.clock.pass(MINUTE)
      await world.store.renewLease(world.holder, 10_000)
      await world.turn()
      expect(await world.store.listInFlight(other)).toMatchObject([{ attemptId: claims[0]!.attemptId, stop: "cancel" }])
      await world.die(other)
      expect(await world.store.reapHolders(9)).toMatchObject([{ attemptId: claims[0]!.attemptId, cancelling: "cancel" }])
    })

    it("cancels more than a thousand rows over several advances", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.each": { fan } })
      const run = await world.start(flow)
      const [gate] = await world.gate()
      await world.turn({ changes: openChunks(flow, gate!) })
      const [each] = await world.gate()
      const items = Array.from({ length: 500 }, () => null)
      const limits = [{ key: `t:${run.id}:1`, cap: 1 }]
      for (let offset = 0; offset < 1500; offset += 500)
        await world.turn({ changes: [{ ...expandAll(each!, items, limits), offset, total: 1500 } as Change] })
      world.clock.pass(MINUTE)
      expect((await world.turn()).more).toBe(true)
      expect((await world.turn()).more).toBe(false)
      await evaluateAll(world, flow)
      expect(await world.run(run.id)).toMatchObject({ status: "failed", tasks: { cancelled: 1500 } })
    })

    it("is cancelled together with its run", async () => {
      const world = await setup(open)
      const { run, claims } = await begin(world, plain)
      await world.store.requestCancel(run.id, "cancel")
      world.clock.pass(MINUTE)
      expect(await world.turn()).toMatchObject({ stopRequests: [], nextDueMs: null, cancelling: [{ reason: "cancel" }] })
      await world.turn({ changes: [cancelled(world, claims[0]!)] })
      const [gather] = await world.gate()
      await world.turn({ changes: [{ ...gathered(gather!), status: "cancelled" } as Change] })
      expect((await world.run(run.id)).status).toBe("cancelled")
    })

    it("has its full timeout again after a retry", async () => {
      const world = await setup(open)
      const flow = workflow({ g: timed, "g.a": {}, "g.b": { after: ["g.a"] } })
      const { run, claims } = await begin(world, flow)
      world.clock.pass(MINUTE)
      await world.turn()
      await world.turn({ changes: [cancelled(world, claims[0]!)] })
      await evaluateAll(world, flow)
      const plan = planRetry(flow, await world.run(run.id), await statesOf(world, run.id), {})
      if ("problem" in plan) throw new Error(plan.problem)
      expect(await world.store.retryRun(run.id, plan.reset)).toBe(true)
      await evaluateAll(world, flow)
      expect((await world.turn()).nextDueMs).toBe(MINUTE)
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      const [b] = await world.claim()
      await world.turn({ changes: [world.ended(b!)] })
      await evaluateAll(world, flow)
      expect(await world.run(run.id)).toMatchObject({ status: "success" })
      expect((await world.turn()).nextDueMs).toBeNull()
    })

    it("also cancels retried groups inside it that wait for their slots, with everything below them", async () => {
      const world = await setup(open)
      const limited = { ...group, concurrency: 1 }
      const flow = workflow({ g: timed, "g.h": limited, "g.h.i": limited, "g.h.i.a": {}, "g.h.i.b": { after: ["g.h.i.a"] } })
      const { run, claims } = await begin(world, flow)
      await world.turn({ changes: [world.ended(claims[0]!, "failed")] })
      const skip = (await world.gate()).find(({ node }) => flow.nodes[node]!.name === "g.h.i.b")!
      await world.turn({ changes: [{ ...fence(skip), kind: "skip", skipReason: "unmet", reason: "" }] })
      await evaluateAll(world, flow)
      const plan = planRetry(flow, await world.run(run.id), await statesOf(world, run.id), {})
      if ("problem" in plan) throw new Error(plan.problem)
      expect(await world.store.retryRun(run.id, plan.reset)).toBe(true)
      expect((await world.task(run.id, "g.h.i.a")).parked).toBe("group")
      world.clock.pass(MINUTE)
      await world.turn()
      await evaluateAll(world, flow)
      expect(await world.run(run.id)).toMatchObject({ status: "failed", tasks: { cancelled: 2, pending: 0 } })
    })
  })
}
