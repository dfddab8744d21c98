// Fenced changes of attempts: start, finish, retry, release.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import { InvalidValue } from "../../contract/errors.ts"
import { BEGIN, fence, type Open, setup } from "../world.ts"

const one = workflow({ a: {} })
const pair = workflow({ a: {}, b: { after: ["a"] } })

export const attemptTests = (open: Open): void => {
  describe("a start", () => {
    it("sets a dispatched row to running at the time that the holder reports", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      const at = BEGIN + 1234
      const { events } = await world.turn({ changes: [{ ...fence(claim!), kind: "started", at, externalId: "pid 7" }] })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running", startedAt: iso(at), externalId: "pid 7" })
      expect(events).toEqual([{ type: "task", runId: run.id, task: "a", path: "", attempt: 1, status: "running", at: iso(at) }])
    })

    it("that is part of the result is stored and emitted before the finish", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      world.clock.pass(5000)
      const result = { state: "success", startedAt: BEGIN + 1000, finishedAt: BEGIN + 3000 } as const
      const { events } = await world.turn({ changes: [{ ...fence(claim!), kind: "finish", status: "success", result }] })
      expect(events.map(({ type, status, at }) => [type, status, at])).toEqual([
        ["task", "running", iso(BEGIN + 1000)],
        ["task", "success", iso(BEGIN + 3000)],
        ["run", "success", iso(BEGIN + 5000)],
      ])
      expect(await world.task(run.id, "a")).toMatchObject({ startedAt: iso(BEGIN + 1000), finishedAt: iso(BEGIN + 3000) })
    })

    it("that is reported again after a lost response changes nothing", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      const started = (at: number): Change => ({ ...fence(claim!), kind: "started", at })
      await world.turn({ changes: [started(BEGIN + 1)] })
      expect(await world.turn({ changes: [started(BEGIN + 2)] })).toMatchObject({ rejected: [], events: [] })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running", startedAt: iso(BEGIN + 1) })
      expect((await world.turn({ changes: [started(BEGIN + 3), world.ended(claim!)] })).rejected).toEqual([])
    })

    it("is emitted once, also when the same batch finishes the attempt", async () => {
      const world = await setup(open)
      await world.start(one)
      const [claim] = await world.claim()
      const { events } = await world.turn({
        changes: [{ ...fence(claim!), kind: "started", at: BEGIN }, world.ended(claim!)],
      })
      expect(events.map(({ status }) => status)).toEqual(["running", "success", "success"])
    })
  })

  describe("a finish", () => {
    it("stores every field of the result and keeps the attempt id, which names the log", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      const usage = { maxRssBytes: 5_000_000, cpuUserMs: 12, signal: "SIGKILL" }
      const result = {
        state: "timeout",
        startedAt: BEGIN,
        finishedAt: BEGIN + 9,
        output: { inline: { half: true } },
        error: "took too long",
        exitCode: 137,
        externalId: "pid 9",
        usage,
      } as const
      await world.turn({ changes: [{ ...fence(claim!), kind: "finish", status: "failed", result }] })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "failed",
        lastAttemptState: "timeout",
        attemptId: claim!.attemptId,
        output: { inline: { half: true } },
        error: "took too long",
        exitCode: 137,
        externalId: "pid 9",
        usage,
        worker: "first",
        finishedAt: iso(BEGIN + 9),
      })
      expect(await world.store.listInFlight(world.holder)).toEqual([])
    })

    it("is applied once", async () => {
      const world = await setup(open)
      const run = await world.start(pair)
      const [a] = await world.claim()
      const first = await world.turn({ changes: [world.ended(a!), world.ended(a!)] })
      expect(first.rejected).toEqual([fence(a!)])
      const second = await world.turn({ changes: [world.ended(a!, "failed")] })
      expect(second).toMatchObject({ rejected: [fence(a!)], events: [], closed: [] })
      expect(await world.statuses(run.id)).toEqual({ a: "success", b: "pending" })
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 1, success: 1, failed: 0 })
    })
  })

  describe("a batch with a value that cannot be stored", () => {
    it("is rejected because of its content, and none of its changes is applied", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      const bad: Change = { ...fence(b!), kind: "started", at: Number.NaN }
      const error: unknown = await world.turn({ changes: [world.ended(a!), bad] }).catch((cause: unknown) => cause)
      expect(error).toBeInstanceOf(InvalidValue)
      expect(await world.statuses(run.id)).toEqual({ a: "dispatched", b: "dispatched" })
      await world.turn({ changes: [world.ended(a!)] })
      expect(await world.statuses(run.id)).toEqual({ a: "success", b: "dispatched" })
    })
  })

  describe("a stale attempt", () => {
    it("changes nothing: no status, no downstream row, no counter", async () => {
      const world = await setup(open)
      const run = await world.start(pair)
      const [old] = await world.claim()
      await world.turn({ changes: [world.again(old!, 0, "lost")] })
      const [live] = await world.claim()
      const before = await world.run(run.id)
      const answer = await world.turn({
        changes: [
          { ...fence(old!), kind: "started", at: BEGIN },
          world.ended(old!),
          world.again(old!, 0),
          { ...fence(old!), kind: "release" },
        ],
      })
      expect(answer).toMatchObject({ rejected: [fence(old!)], events: [], closed: [] })
      expect(await world.run(run.id)).toEqual(before)
      expect(await world.task(run.id, "a")).toMatchObject({ status: "dispatched", attemptId: live!.attemptId, losses: 1 })
      expect(await world.task(run.id, "b")).toMatchObject({ status: "pending", upstreamPending: 1 })
      expect((await world.turn({ changes: [world.ended(live!)] })).rejected).toEqual([])
    })

    it("of an unknown row is rejected", async () => {
      const world = await setup(open)
      const nobody = { row: 987_654, attemptId: "0198f000-0000-7000-8000-000000000000" as AttemptId }
      expect((await world.turn({ changes: [world.ended(nobody)] })).rejected).toEqual([nobody])
    })

    it("also rejects the later changes under its fence", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      await world.turn({ changes: [{ ...fence(claim!), kind: "started", at: BEGIN }] })
      // A running attempt cannot be released.
      const changes: Change[] = [{ ...fence(claim!), kind: "release" }, world.ended(claim!)]
      expect((await world.turn({ changes })).rejected).toEqual([fence(claim!)])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running" })
    })

    it("does not affect the other changes of its batch", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      expect((await world.turn({ changes: [world.ended(a!), world.ended(b!)] })).rejected).toEqual([fence(a!)])
      expect(await world.run(run.id)).toMatchObject({ status: "success" })
    })

    it("of the gate is rejected after another gate has claimed the row", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { if: "true" } }))
      const [old] = await world.gate()
      await world.turn({ changes: [{ ...fence(old!), kind: "release" }] })
      const [live] = await world.gate()
      const stale: Change[] = [
        { ...fence(old!), kind: "skip", skipReason: "waived", reason: "" },
        { ...fence(old!), kind: "enqueue", lane: "q:default", limits: [] },
      ]
      for (const change of stale) expect((await world.turn({ changes: [change] })).rejected).toEqual([fence(old!)])
      const admitted: Change = { ...fence(live!), kind: "enqueue", lane: "q:default", limits: [] }
      expect((await world.turn({ changes: [admitted], claim: 1 })).claims).toHaveLength(1)
    })

    it("cannot apply a gate's change to a claim for work, or the reverse", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { if: "true" } }))
      const { claims, gateClaims: gates } = await world.turn({ claim: 1, gate: 1 })
      const wrong = [
        { ...fence(claims[0]!), kind: "fail", error: "no" } as const,
        { ...fence(claims[0]!), kind: "reuse", output: { inline: 1 } } as const,
        world.ended(gates[0]!),
        { ...fence(gates[0]!), kind: "started", at: BEGIN } as const,
      ]
      for (const change of wrong) expect((await world.turn({ changes: [change] })).rejected).toEqual([fence(change)])
    })
  })

  describe("a retry", () => {
    it("is available after its delay, not before", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      const { events, nextDueMs } = await world.turn({ changes: [world.again(claim!, 5000)], claim: 9 })
      expect(nextDueMs).toBe(5000)
      expect(events.at(-1)).toMatchObject({ status: "pending", attempt: 1, availableAt: iso(BEGIN + 5000), error: "it broke" })
      world.clock.pass(4999)
      expect(await world.turn({ claim: 9 })).toMatchObject({ claims: [], nextDueMs: 1 })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "pending", availableAt: iso(BEGIN + 5000), failures: 1 })
      world.clock.pass(1)
      const { claims, nextDueMs: after } = await world.turn({ claim: 9 })
      expect(claims[0]).toMatchObject({ attempt: 2, failures: 1, losses: 0 })
      expect(claims[0]!.attemptId).not.toBe(claim!.attemptId)
      expect(after).toBeNull()
    })

    it("without a delay is claimed by the same advance", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      expect((await world.turn({ changes: [world.again(claim!, 0)], claim: 9 })).claims[0]).toMatchObject({ attempt: 2 })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "dispatched",
        lastAttemptState: null,
        error: null,
        exitCode: null,
      })
    })

    it("counts losses separately from failures", async () => {
      const world = await setup(open)
      await world.start(one)
      const [first] = await world.claim()
      const [second] = (await world.turn({ changes: [world.again(first!, 0, "lost")], claim: 9 })).claims
      expect(second).toMatchObject({ failures: 0, losses: 1 })
      const [third] = (await world.turn({ changes: [world.again(second!, 0)], claim: 9 })).claims
      expect(third).toMatchObject({ failures: 1, losses: 1, attempt: 3 })
    })

    it("keeps the previous attempt in the history", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      await world.turn({ changes: [{ ...fence(claim!), kind: "started", at: BEGIN + 5, externalId: "pid 1" }] })
      await world.turn({ changes: [world.again(claim!, 0)] })
      const { row, lastAttemptState, attemptId } = await world.task(run.id, "a")
      expect({ lastAttemptState, attemptId }).toEqual({ lastAttemptState: "failed", attemptId: null })
      expect(await world.store.listAttempts(row)).toEqual([
        {
          attempt: 1,
          attemptId: claim!.attemptId,
          state: "failed",
          worker: "first",
          externalId: "pid 1",
          exitCode: 3,
          error: "it broke",
          usage: null,
          dispatchedAt: iso(BEGIN),
          startedAt: iso(BEGIN + 5),
          finishedAt: iso(BEGIN),
        },
      ])
    })

    it("of more than a thousand rows becomes ready over several advances", async () => {
      const world = await setup(open)
      const tasks = Object.fromEntries(Array.from({ length: 1500 }, (_, i) => [`t${i}`, {}]))
      await world.start(workflow(tasks))
      const first = await world.claim(1000)
      const rest = await world.claim(1000)
      await world.turn({ changes: first.map((claim) => world.again(claim, 1000)) })
      await world.turn({ changes: rest.map((claim) => world.again(claim, 1000)) })
      world.clock.pass(1000)
      expect((await world.turn()).more).toBe(true)
      expect((await world.turn()).more).toBe(false)
      expect(await world.claim(1000)).toHaveLength(1000)
      expect(await world.claim(1000)).toHaveLength(500)
    })
  })

  describe("a release", () => {
    it("of a claim for work restores the row and does not count the attempt", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      await world.turn({ changes: [{ ...fence(claim!), kind: "release" }] })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "pending",
        attempt: 0,
        attemptId: null,
        worker: null,
        dispatchedAt: null,
      })
      expect((await world.claim())[0]).toMatchObject({ attempt: 1, failures: 0, losses: 0 })
    })

    it("of a started attempt is rejected", async () => {
      const world = await setup(open)
      await world.start(one)
      const [claim] = await world.claim()
      await world.turn({ changes: [{ ...fence(claim!), kind: "started", at: BEGIN }] })
      expect((await world.turn({ changes: [{ ...fence(claim!), kind: "release" }] })).rejected).toEqual([fence(claim!)])
    })

    it("of a gate claim lets the gate claim the row again", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      expect(await world.gate()).toEqual([])
      await world.turn({ changes: [{ ...fence(gate!), kind: "release" }] })
      expect(await world.gate()).toHaveLength(1)
    })
  })
}
