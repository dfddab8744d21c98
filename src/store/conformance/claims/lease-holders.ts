// Lease holders, and the attempts of dead ones.

import { describe, expect, it } from "vitest"
import { newHolderId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import { BEGIN, fence, GATE, LEASE_MS, type Open, setup } from "../world.ts"

export const leaseHolderTests = (open: Open): void => {
  describe("a lease holder", () => {
    it("is listed as it was registered", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      const id = "0198f000-0000-7000-8000-0000000000aa" as typeof world.holder
      const holder = { id, kind: "run", name: "me", leaseMs: 5000, process: "12:34:boot", runId: run.id } as const
      await world.store.registerHolder(holder)
      const listed = { leaseUntil: iso(BEGIN + 5000), dead: false, capabilities: null, inFlight: 0 }
      expect(await world.store.listHolders()).toContainEqual({ ...holder, ...listed })
    })

    it("is listed with its capabilities and its number of attempts in flight", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: { if: "true" } }))
      const id = await world.employ("far")
      await world.turn({ holder: id, claim: 2, gate: 1 })
      expect((await world.store.listHolders()).find((holder) => holder.id === id)).toMatchObject({
        kind: "worker",
        capabilities: { queues: ["default"], labels: ["gpu"], handlers: [], capacity: 4, version: "1" },
        inFlight: 2,
      })
    })

    it("renews its lease while it lives", async () => {
      const world = await setup(open)
      world.clock.pass(1000)
      expect(await world.store.renewLease(world.holder, LEASE_MS)).toBe(true)
      expect((await world.store.listHolders())[0]!.leaseUntil).toBe(iso(BEGIN + 1000 + LEASE_MS))
    })

    it("can list its claims, including gate claims", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { if: "true" }, c: {} }))
      const other = await world.join("other")
      const { claims, gateClaims: gates } = await world.turn({ claim: 1, gate: 1 })
      await world.turn({ holder: other, claim: 1 })
      expect(await world.store.listInFlight(world.holder)).toEqual(
        [claims[0]!, gates[0]!].map((claim) => ({ ...fence(claim), stop: null, resumes: 0 })),
      )
      await world.turn({ changes: [world.ended(claims[0]!)] })
      expect(await world.store.listInFlight(world.holder)).toEqual([{ ...fence(gates[0]!), stop: null, resumes: 0 }])
    })

    it("learns which of its attempts must be stopped", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      await world.start(workflow({ b: {} }))
      const claims = await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      expect(await world.store.listInFlight(world.holder)).toEqual(
        claims.map((claim) => ({ ...fence(claim), stop: claim.runId === run.id ? "cancel" : null, resumes: 0 })),
      )
    })

    it("that deregistered is no longer listed", async () => {
      const world = await setup(open)
      const other = await world.join("other")
      await world.store.deregisterHolder(other)
      expect((await world.store.listHolders()).map(({ id }) => id)).toEqual([world.holder])
      expect(await world.store.renewLease(other, LEASE_MS)).toBe(false)
    })

    it("that is alive is not reaped", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {} }))
      await world.claim()
      expect(await world.store.reapHolders(10)).toEqual([])
      expect(await world.store.listInFlight(world.holder)).toHaveLength(1)
    })
  })

  describe("a private run", () => {
    const lanes = (runId: string): { lanes: string[]; gateLanes: string[] } => ({
      lanes: ["q:*", `p:${runId}:w`],
      gateLanes: [GATE, `p:${runId}:g`],
    })

    it("is abandoned while it is being cancelled or has unfinished hooks, and its `ork run` is dead", async () => {
      const world = await setup(open)
      const { store } = world
      const run = await world.start(workflow({ a: { if: "true" }, "on_exit.0": {} }), { private: true })
      const other = newHolderId(world.clock.now(), world.random.hex128())
      await store.registerHolder({ id: other, kind: "run", name: "run", leaseMs: LEASE_MS, process: "run", runId: run.id })
      const { gateClaims: gates } = await world.turn({ holder: other, gate: 1, gateLanes: [`p:${run.id}:g`] })
      expect(gates).toHaveLength(1)
      await store.requestCancel(run.id, "cancel")
      expect(await store.listAbandonedRuns(9)).toEqual([])
      await world.die(other)
      await store.reapHolders(9)
      expect(await store.listAbandonedRuns(9)).toEqual([{ runId: run.id, closed: false }])
      await world.turn({ gate: 9, ...lanes(run.id) })
      expect(await world.run(run.id)).toMatchObject({ status: "cancelled", hooksPending: 1 })
      expect(await store.listAbandonedRuns(9)).toEqual([{ runId: run.id, closed: true }])
      const { claims } = await world.turn({ claim: 9, ...lanes(run.id) })
      await world.turn({ changes: claims.map((claim) => world.ended(claim)) })
      expect(await world.run(run.id)).toMatchObject({ hooksPending: 0 })
      expect(await store.listAbandonedRuns(9)).toEqual([])
    })

    it("that is not being cancelled is never abandoned: `ork run --resume` continues it", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {} }), { private: true })
      expect(await world.store.listAbandonedRuns(9)).toEqual([])
    })
  })

  describe("a dead lease holder", () => {
    it("has its attempts finished as lost under their attempt ids", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const other = await world.join("other")
      const { claims } = await world.turn({ holder: other, claim: 1 })
      const [claim] = claims
      await world.turn({ changes: [{ ...fence(claim!), kind: "started", at: BEGIN, externalId: "pid 5" }] })
      await world.die(other)
      const left = await world.store.reapHolders(10)
      expect(left).toEqual([
        {
          ...fence(claim!),
          runSeq: run.seq,
          runId: run.id,
          versionId: run.versionId,
          node: 0,
          path: "",
          kind: "task",
          attempt: 1,
          failures: 0,
          losses: 0,
          startedAt: iso(BEGIN),
          externalId: "pid 5",
          cancelling: null,
        },
      ])
      const { claims: again } = await world.turn({ changes: [world.again(left[0]!, 0, "lost")], claim: 9 })
      expect(again).toMatchObject([
        { node: 0, attempt: 2, losses: 1 },
        { node: 1, attempt: 1 },
      ])
      // The late reports of the dead holder are rejected.
      expect((await world.turn({ holder: other, changes: [world.ended(claim!)] })).rejected).toEqual([fence(claim!)])
    })

    it("cannot renew its lease and claims nothing more", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { if: "true" } }))
      const other = await world.join("other")
      await world.turn({ holder: other, claim: 1 })
      await world.die(other)
      await world.store.reapHolders(10)
      expect(await world.store.renewLease(other, LEASE_MS)).toBe(false)
      expect(await world.turn({ holder: other, claim: 9, gate: 9 })).toMatchObject({ claims: [], gateClaims: [] })
    })

    it("stays listed as dead until none of its attempts is left, and the attempts are reaped in batches of the given size", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: {} }))
      const other = await world.join("other")
      await world.turn({ holder: other, claim: 3 })
      await world.die(other)
      const first = await world.store.reapHolders(2)
      expect(first).toHaveLength(2)
      expect((await world.store.listHolders()).map(({ name, dead }) => [name, dead])).toEqual([
        ["first", false],
        ["other", true],
      ])
      await world.turn({ changes: first.map((attempt) => world.again(attempt, 0, "lost")) })
      const rest = await world.store.reapHolders(2)
      expect(rest).toHaveLength(1)
      await world.turn({ changes: rest.map((attempt) => world.again(attempt, 0, "lost")) })
      expect(await world.store.reapHolders(2)).toEqual([])
      expect(await world.store.listHolders()).toHaveLength(1)
    })

    it("has its gate claims released at once", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" } }))
      const other = await world.join("other")
      const { gateClaims: gates } = await world.turn({ holder: other, gate: 1 })
      await world.die(other)
      expect(await world.store.reapHolders(10)).toEqual([])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "pending", attemptId: null })
      const skip = { ...fence(gates[0]!), kind: "skip", skipReason: "waived", reason: "" } as const
      expect((await world.turn({ holder: other, changes: [skip] })).rejected).toHaveLength(1)
      expect(await world.gate()).toHaveLength(1)
    })

    it("keeps the slots of limits until its attempts have ended", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {} }, { concurrency: 1 }))
      const other = await world.join("other")
      await world.turn({ holder: other, claim: 1 })
      await world.die(other)
      const left = await world.store.reapHolders(10)
      expect(await world.claim()).toEqual([])
      expect((await world.turn({ changes: left.map((l) => world.again(l, 60_000, "lost")), claim: 9 })).claims).toHaveLength(1)
    })

    it("has attempts that carry the cancellation of their run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      const other = await world.join("other")
      await world.turn({ holder: other, claim: 1 })
      await world.store.requestCancel(run.id, "cancel")
      await world.die(other)
      const left = await world.store.reapHolders(10)
      expect(left).toMatchObject([{ cancelling: "cancel" }])
      expect((await world.turn({ changes: [world.ended(left[0]!, "cancelled")] })).closed).toHaveLength(1)
    })

    it("that deregistered with attempts in flight is reaped too", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {} }))
      const other = await world.join("other")
      await world.turn({ holder: other, claim: 1 })
      await world.store.deregisterHolder(other)
      expect(await world.store.reapHolders(10)).toHaveLength(1)
    })
  })
}
