// Settings of jobs: keys, delays, expiry, limits, groups, and retries by users.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import type { JobRow, JobStore, NewJob } from "../../contract/jobs.ts"
import type { Store } from "../../contract/store.ts"
import { MAX_DUE } from "../../shared/bounds.ts"
import { BEGIN, fence, type Open, setup } from "../world.ts"
import { create, idsOf, type Jobs, newJob, status } from "./jobs.ts"

const RETRY = { maxAttempts: 100, backoff: "exponential", baseDelayMs: 200, maxDelayMs: 600_000, jitter: true } as const

const createOne = async (world: Jobs, input: Partial<NewJob>, onConflict?: "existing" | "replace" | "error") =>
  world.store.createJobs([newJob(world, input)], onConflict === undefined ? {} : { onConflict })

export const jobSettingTests = (open: Open<Store & JobStore>): void => {
  it("a job keeps its settings, and its claim carries those that an attempt needs", async () => {
    const world = await setup(open)
    const input = newJob(world, {
      retry: RETRY,
      concurrencyKey: "tenant",
      concurrencyLimit: 3,
      limits: [{ key: "mail", cap: 50 }],
      key: "welcome",
      runAt: iso(BEGIN - 1),
      timeoutMs: 30_000,
      expiresMs: 60_000,
      group: "acme",
    })
    const [job] = (await world.store.createJobs([input])) as JobRow[]
    expect(job).toMatchObject({ ...input, created: true })
    expect(await world.store.getJob(input.id)).toEqual(job)
    expect((await world.claimJobs())[0]).toMatchObject({ job: { retry: RETRY, timeoutMs: 30_000 }, failures: 0, losses: 0 })
  })

  it("a claim counts the failures and losses of earlier attempts", async () => {
    const world = await setup(open)
    await create(world, {})
    for (const state of ["failed", "lost", "lost"] as const)
      await world.turn({ changes: [world.again((await world.claimJobs())[0]!, 0, state)] })
    expect((await world.claimJobs())[0]).toMatchObject({ attempt: 4, failures: 1, losses: 2 })
  })

  describe("a key", () => {
    it("gives the existing job of the same name, whatever its status, until that is deleted", async () => {
      const world = await setup(open)
      const [first] = await create(world, { key: "k", payload: 1 })
      expect(await createOne(world, { key: "k", payload: 2 })).toEqual([{ ...first, created: false }])
      const [other, none] = await create(world, { key: "k", name: "other" }, { key: "k2" })
      expect(new Set([first!.id, other!.id, none!.id]).size).toBe(3)
      await world.turn({ changes: (await world.claimJobs()).map((claim) => world.ended(claim)) })
      expect(await createOne(world, { key: "k" })).toMatchObject([{ id: first!.id, status: "COMPLETED", created: false }])
      await world.store.deleteJob(first!.id)
      expect(await createOne(world, { key: "k" })).toMatchObject([{ created: true, status: "READY" }])
    })

    it("may be long, and counts within a batch, whose dependencies lead to the existing job", async () => {
      const world = await setup(open)
      const key = "x".repeat(10_000)
      const [old] = await create(world, { key: "old" })
      const [a, b, again] = [newJob(world, { key }), newJob(world, { key }), newJob(world, { key: "old" })]
      const below = newJob(world, { dependencies: [b.id, again.id] })
      const made = (await world.store.createJobs([a, b, again, below])) as JobRow[]
      expect(made.map(({ id, created }) => [id, created])).toEqual([
        [a.id, true],
        [a.id, false],
        [old!.id, false],
        [below.id, true],
      ])
      expect(made[3]!.dependencies).toEqual([a.id, old!.id])
    })

    it("rejects the whole batch with `error`", async () => {
      const world = await setup(open)
      const [first] = await create(world, { key: "k" })
      const fine = newJob(world)
      const batch = [fine, newJob(world, { key: "k" })]
      expect(await world.store.createJobs(batch, { onConflict: "error" })).toEqual({ rejected: "key_exists", id: first!.id })
      expect(await world.store.getJob(fine.id)).toBeNull()
    })

    it("replaces the payload and the settings of a job that has not started with `replace`", async () => {
      const world = await setup(open)
      const [first] = await create(world, { key: "k", payload: 1, delayMs: 1000, expiresMs: 10 })
      world.clock.pass(500)
      const settings = { payload: 2, queue: "other", priority: 9, group: "g", concurrencyKey: "c", timeoutMs: 7 }
      const [replaced] = (await createOne(world, { key: "k", delayMs: 2000, ...settings }, "replace")) as JobRow[]
      expect(replaced).toMatchObject({ id: first!.id, created: false, ...settings, expiresMs: null, delayMs: 2000 })
      expect(replaced).toMatchObject({ availableAt: iso(BEGIN + 2500), updatedAt: iso(BEGIN + 500), createdAt: iso(BEGIN) })
      world.clock.pass(1999)
      expect((await world.turn({ claim: 9, lanes: ["q:*"] })).jobs).toEqual([])
      await createOne(world, { key: "k", payload: 3, queue: "other" }, "replace")
      const { jobs } = await world.turn({ claim: 9, lanes: ["q:*"] })
      expect(jobs).toMatchObject([{ job: { id: first!.id, payload: 3 } }])
      expect(await createOne(world, { key: "k", payload: 4 }, "replace")).toMatchObject([{ payload: 3, status: "RUNNING" }])
    })

    it("of a PENDING job replaces it without starting it", async () => {
      const world = await setup(open)
      const [above] = await create(world, {})
      const [below] = await create(world, { key: "k", dependencies: [above!.id], expiresMs: 5 })
      expect(await createOne(world, { key: "k", payload: 2, expiresMs: 6 }, "replace")).toMatchObject([
        { id: below!.id, payload: 2, status: "PENDING", dependencies: [above!.id] },
      ])
      expect(idsOf(await world.claimJobs())).toEqual([above!.id])
    })

    it("is not taken over by a job that is renamed", async () => {
      const world = await setup(open)
      const [first, second] = await create(world, { key: "k" }, { key: "k", name: "other" })
      expect(await world.store.editJob(second!.id, { name: first!.name })).toEqual({
        rejected: "key_exists",
        id: first!.id,
      })
    })
  })

  describe("a delayed job", () => {
    it("is READY and claimed when its time has come", async () => {
      const world = await setup(open)
      const [late, later] = await create(world, { delayMs: 1000 }, { runAt: iso(BEGIN + 2000) })
      expect(late).toMatchObject({ status: "READY", availableAt: iso(BEGIN + 1000), delayMs: 1000 })
      expect(later).toMatchObject({ status: "READY", availableAt: iso(BEGIN + 2000) })
      const turn = await world.turn({ claim: 9 })
      expect(turn).toMatchObject({ jobs: [], nextDueMs: 1000 })
      world.clock.pass(1000)
      expect(idsOf(await world.claimJobs())).toEqual([late!.id])
      world.clock.pass(1000)
      expect(idsOf(await world.claimJobs())).toEqual([later!.id])
    })

    it("waits for its dependencies as well, and is BLOCKED at once by their failure", async () => {
      const world = await setup(open)
      const [good, bad] = await create(world, { priority: 9 }, {})
      const [a] = await create(world, { dependencies: [good!.id], delayMs: 1000 })
      const [b] = await create(world, { dependencies: [bad!.id], delayMs: 1000 })
      const claims = await world.claimJobs()
      await world.turn({ changes: [world.ended(claims[0]!), world.ended(claims[1]!, "failed")] })
      expect(await status(world, a!, b!)).toEqual(["READY", "BLOCKED"])
      expect(await world.claimJobs()).toEqual([])
      world.clock.pass(1000)
      expect(idsOf(await world.claimJobs())).toEqual([a!.id])
    })
  })

  describe("an expiring job", () => {
    it("fails when it has not started in time, and blocks its dependents", async () => {
      const world = await setup(open)
      const [job] = await create(world, { expiresMs: 1000 })
      const [below] = await create(world, { dependencies: [job!.id] })
      expect((await world.turn()).nextDueMs).toBe(1000)
      world.clock.pass(1000)
      const { jobs, events, nextDueMs } = await world.turn({ claim: 9 })
      expect({ jobs, nextDueMs }).toEqual({ jobs: [], nextDueMs: null })
      expect(events.map((event) => [event.jobId, event.status, event.error])).toEqual([
        [job!.id, "FAILED", "expired"],
        [below!.id, "BLOCKED", expect.stringContaining(job!.id)],
      ])
      expect(await world.store.getJob(job!.id)).toMatchObject({
        status: "FAILED",
        error: "expired",
        finishedAt: iso(BEGIN + 1000),
      })
      expect(await status(world, below!)).toEqual(["BLOCKED"])
    })

    it("is not claimed by the first turn after its time, which no turn expected", async () => {
      const world = await setup(open)
      await world.turn({ claim: 9 })
      await world.turn({ claim: 9 })
      const [late, other] = await create(world, { expiresMs: 1000 }, {})
      world.clock.pass(1000)
      const { jobs } = await world.turn({ claim: 9 })
      expect(idsOf(jobs)).toEqual([other!.id])
      expect(await world.store.getJob(late!.id)).toMatchObject({ status: "FAILED", error: "expired" })
    })

    it("is not claimed beside more expired jobs than one turn fails", async () => {
      const world = await setup(open)
      const expiring = Array.from({ length: MAX_DUE + 5 }, () => ({ expiresMs: 1000 }))
      const jobs = await create(world, ...expiring, { priority: 1 })
      world.clock.pass(1000)
      const claimed: string[] = []
      for (let more = true; more;) {
        const turn = await world.turn({ claim: 9 })
        claimed.push(...idsOf(turn.jobs))
        more = turn.more
      }
      const [lasting, ...expired] = jobs.toReversed()
      expect(claimed).toEqual([lasting!.id])
      expect(new Set(await status(world, ...expired))).toEqual(new Set(["FAILED"]))
    })

    it("does not fail once it has started", async () => {
      const world = await setup(open)
      const [job] = await create(world, { expiresMs: 1000 })
      const [claim] = await world.claimJobs()
      world.clock.pass(1000)
      expect((await world.turn()).nextDueMs).toBeNull()
      await world.turn({ changes: [world.again(claim!, 5000)] })
      world.clock.pass(5000)
      expect(idsOf(await world.claimJobs())).toEqual([job!.id])
    })

    it("fails when its first claim was released", async () => {
      const world = await setup(open)
      const [job] = await create(world, { expiresMs: 1000 })
      const [claim] = await world.claimJobs()
      await world.turn({ changes: [{ ...fence(claim!), kind: "release" }] })
      world.clock.pass(1000)
      await world.turn()
      expect(await status(world, job!)).toEqual(["FAILED"])
    })

    it.each([true, false])("fails when its first claim is released after its time (noticed before: %s)", async (isNoticed) => {
      const world = await setup(open)
      const [job] = await create(world, { expiresMs: 1000 })
      const [below] = await create(world, { dependencies: [job!.id] })
      const [claim] = await world.claimJobs()
      world.clock.pass(1000)
      if (isNoticed) expect((await world.turn()).nextDueMs).toBeNull()
      expect(await status(world, job!)).toEqual(["RUNNING"])
      const release = { ...fence(claim!), kind: "release" } as const
      const { jobs } = await world.turn({ changes: [release], claim: 9 })
      expect(jobs).toEqual([])
      const { jobs: later, nextDueMs } = await world.turn({ claim: 9 })
      expect({ later, nextDueMs }).toEqual({ later: [], nextDueMs: null })
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "FAILED", error: "expired" })
      expect(await status(world, below!)).toEqual(["BLOCKED"])
    })

    it("has its time from when it is available: after its delay and its dependencies", async () => {
      const world = await setup(open)
      const [late, above] = await create(world, { delayMs: 1000, expiresMs: 500 }, { priority: 9 })
      const [below] = await create(world, { dependencies: [above!.id], expiresMs: 500 })
      const [claim] = await world.claimJobs()
      world.clock.pass(1000)
      await world.turn({ changes: [world.ended(claim!)] })
      world.clock.pass(499)
      await world.turn()
      expect(await status(world, late!, below!)).toEqual(["READY", "READY"])
      world.clock.pass(1)
      await world.turn()
      expect(await status(world, late!, below!)).toEqual(["FAILED", "FAILED"])
    })

    it("that waited for a slot leaves the slot to the next", async () => {
      const world = await setup(open)
      const keyed = { concurrencyKey: "k" }
      const [, parked, next] = await create(world, { ...keyed, priority: 9 }, { ...keyed, priority: 8, expiresMs: 1000 }, keyed)
      const [claim] = await world.claimJobs()
      expect(await world.claimJobs()).toEqual([])
      world.clock.pass(1000)
      await world.turn()
      expect(await status(world, parked!)).toEqual(["FAILED"])
      await world.turn({ changes: [world.ended(claim!)] })
      expect(idsOf(await world.claimJobs())).toEqual([next!.id])
    })
  })

  describe("limits of jobs", () => {
    it("allow as many jobs of a concurrency key as its limit says", async () => {
      const world = await setup(open)
      await create(world, ...Array.from({ length: 5 }, () => ({ concurrencyKey: "k", concurrencyLimit: 2 })))
      expect(await world.claimJobs()).toHaveLength(2)
      await create(world, { concurrencyKey: "k", concurrencyLimit: 4 })
      expect(await world.claimJobs()).toHaveLength(2)
    })

    it("hold across queues and all at once", async () => {
      const world = await setup(open)
      const long = "k".repeat(5000)
      const total = { key: "all", cap: 3 }
      const jobs = ["a", "a", "b", "b", "b", "c"].map((key) => ({
        limits: [total, { key: `${long}${key}`, cap: 1 }],
        queue: key === "c" ? "other" : "default",
      }))
      await create(world, ...jobs)
      const { jobs: claims } = await world.turn({ claim: 9, lanes: ["q:default", "q:other"] })
      expect(claims).toHaveLength(3)
      await world.turn({ changes: claims.map((claim) => world.ended(claim)) })
      expect((await world.turn({ claim: 9, lanes: ["q:default", "q:other"] })).jobs).toHaveLength(2)
    })
  })

  it("groups of one lane and priority take turns", async () => {
    const world = await setup(open)
    await create(world, ...Array.from({ length: 50 }, () => ({ group: "busy", name: "busy" })))
    await create(world, ...["x", "y", null].map((group) => ({ group, name: "rare" })))
    const names: string[] = []
    for (let turn = 0; turn < 3; turn++) for (const { job } of await world.claimJobs(4)) names.push(job.name)
    expect(names.filter((name) => name === "rare")).toHaveLength(3)
    await create(world, { group: "busy", name: "urgent", priority: 9 })
    expect((await world.claimJobs(1))[0]).toMatchObject({ job: { name: "urgent" } })
  })

  describe("a user's retry of a job", () => {
    it("makes a FAILED job READY with new attempts, and keeps its history", async () => {
      const world = await setup(open)
      const [job] = await create(world, { concurrencyKey: "k", limits: [{ key: "l", cap: 1 }] })
      await world.turn({ changes: [world.again((await world.claimJobs())[0]!, 0)] })
      await world.turn({ changes: [world.ended((await world.claimJobs())[0]!, "failed")] })
      await world.store.trimLimits(9)
      world.clock.pass(5)
      expect(await world.store.retryJob(job!.id)).toEqual({ ...job, attemptCount: 2, updatedAt: iso(BEGIN + 5) })
      expect((await world.store.listAttempts(job!.row)).map(({ attempt, state }) => [attempt, state])).toEqual([
        [1, "failed"],
        [2, "failed"],
      ])
      const [claim] = await world.claimJobs()
      expect(claim).toMatchObject({ attempt: 3, failures: 0, losses: 0 })
      await world.turn({ changes: [world.ended(claim!)] })
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "COMPLETED", attemptCount: 3 })
    })

    it("is rejected unless the job is FAILED", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const [below] = await create(world, { dependencies: [job!.id] })
      expect(await world.store.retryJob(job!.id)).toEqual({ rejected: "not_failed", status: "READY" })
      expect(await world.store.retryJob(newJob(world).id)).toEqual({ rejected: "not_found" })
      await world.store.cancelJob(below!.id)
      await world.store.cancelJob(job!.id)
      expect(await world.store.retryJob(below!.id)).toEqual({ rejected: "not_failed", status: "BLOCKED" })
      expect(await world.store.retryJob(job!.id)).toMatchObject({ status: "READY" })
      expect(await world.store.retryJob(below!.id)).toMatchObject({ status: "PENDING" })
      await world.turn({ changes: (await world.claimJobs()).map((claim) => world.ended(claim)) })
      expect(await status(world, job!, below!)).toEqual(["COMPLETED", "READY"])
    })

    it("gives an expired job its time again", async () => {
      const world = await setup(open)
      const [job] = await create(world, { expiresMs: 1000 })
      world.clock.pass(1000)
      await world.turn()
      await world.store.retryJob(job!.id)
      expect((await world.turn()).nextDueMs).toBe(1000)
      world.clock.pass(1000)
      await world.turn()
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "FAILED", error: "expired" })
    })
  })
}
