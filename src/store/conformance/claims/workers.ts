// Workers as lease holders: they have leases on every store, and their attempts can be read and adopted by attempt id.

import { describe, expect, it } from "vitest"
import { workflow } from "../../../core/testing.ts"
import { BEGIN, fence, LEASE_MS, type Open, setup, WORKER_LEASE_MS } from "../world.ts"

export const workerTests = (open: Open): void => {
  describe("a worker", () => {
    it("depends on its lease on every store", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {} }))
      const worker = await world.employ("far")
      const { claims } = await world.turn({ holder: worker, claim: 1 })
      world.clock.pass(WORKER_LEASE_MS - 1)
      await world.store.renewLease(world.holder, LEASE_MS)
      expect(await world.store.reapHolders(10)).toEqual([])
      expect(await world.store.renewLease(worker, WORKER_LEASE_MS)).toBe(true)
      world.clock.pass(WORKER_LEASE_MS + 1)
      await world.store.renewLease(world.holder, LEASE_MS)
      expect(await world.store.reapHolders(10, { workers: false })).toEqual([])
      expect(await world.store.renewLease(worker, WORKER_LEASE_MS)).toBe(true)
      world.clock.pass(WORKER_LEASE_MS + 1)
      await world.store.renewLease(world.holder, LEASE_MS)
      expect(await world.store.reapHolders(10)).toMatchObject([fence(claims[0]!)])
      expect(await world.store.renewLease(worker, WORKER_LEASE_MS)).toBe(false)
      expect((await world.turn({ holder: worker, changes: [world.again(claims[0]!, 0, "lost")] })).rejected).toEqual([])
    })

    it("gets a new lease if it expired while no server was alive to renew it", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {} }))
      const worker = await world.employ("far")
      await world.turn({ holder: worker, claim: 1 })
      await world.store.deregisterHolder(world.holder)
      world.clock.pass(10 * WORKER_LEASE_MS)
      await world.store.extendWorkerLeases()
      expect(await world.store.reapHolders(10)).toEqual([])
      world.clock.pass(WORKER_LEASE_MS + 1)
      expect(await world.store.reapHolders(10)).toHaveLength(1)
    })

    it("is identified by the hash of its token until it is evicted", async () => {
      const world = await setup(open)
      const worker = await world.employ("far")
      expect(await world.store.workerToken(worker)).toBe("hash of far")
      expect(await world.store.workerToken(world.holder)).toBeNull()
      await world.store.deregisterHolder(worker)
      expect(await world.store.workerToken(worker)).toBeNull()
    })
  })

  describe("an attempt in flight", () => {
    it("can be read by its attempt id as it was claimed", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { after: ["a"] } }))
      const [a] = await world.claim()
      const { claims } = await world.turn({ changes: [world.ended(a!, "success", { rows: 3 })], claim: 1 })
      const started = { ...fence(claims[0]!), kind: "started", at: BEGIN } as const
      await world.turn({ changes: [started] })
      expect(await world.store.readClaims([fence(claims[0]!)])).toEqual(claims)
      expect(claims[0]!.reads.get(0)).toEqual({ status: "success", output: { inline: { rows: 3 } } })
    })

    it("is not found under another attempt id or after its finish", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {} }))
      const [a] = await world.claim()
      expect(await world.store.readClaims([{ ...fence(a!), row: a!.row + 1 }])).toEqual([])
      await world.turn({ changes: [world.ended(a!)] })
      expect(await world.store.readClaims([fence(a!)])).toEqual([])
    })

    it("of a dead holder is adopted once, under the same attempt id", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const other = await world.join("other")
      const { claims } = await world.turn({ holder: other, claim: 1 })
      await world.turn({ changes: [{ ...fence(claims[0]!), kind: "started", at: BEGIN, externalId: "job 5" }] })
      expect(await world.store.adopt(world.holder, claims.map(fence))).toEqual([])
      await world.die(other)
      await world.store.reapHolders(10)
      expect(await world.store.adopt(world.holder, claims.map(fence))).toEqual(claims)
      expect(await world.store.adopt(world.holder, claims.map(fence))).toEqual([])
      expect(await world.store.reapHolders(10)).toEqual([])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running", worker: "first", externalId: "job 5" })
      expect(await world.store.listInFlight(world.holder)).toEqual([{ ...fence(claims[0]!), stop: null, resumes: 0 }])
      expect((await world.turn({ changes: [world.ended(claims[0]!)] })).rejected).toEqual([])
    })

    it("carries the cancellation of its run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      const [a] = await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      expect(await world.store.readClaims([fence(a!)])).toMatchObject([{ run: { cancelling: "cancel" } }])
    })
  })
}
