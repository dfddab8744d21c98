// Changes of existing jobs by users: update, cancel, delete.

import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { iso } from "../../../core/model/ports.ts"
import type { JobRow, JobStore } from "../../contract/jobs.ts"
import type { Store } from "../../contract/store.ts"
import { type Jobs, create, idsOf, newJob, status } from "./jobs.ts"
import { BEGIN, fence, type Open, setup } from "../world.ts"
import { describe, expect, it } from "vitest"

export const jobChangeTests = (open: Open<Store & JobStore>): void => {
  it("lists finished jobs that are old and that no job depends on", async () => {
    const world = await setup(open)
    const [done, dependency] = await create(world, {}, {})
    await create(world, { dependencies: [dependency!.id] })
    await world.turn({ changes: (await world.claimJobs()).map((claim) => world.ended(claim)) })
    world.clock.pass(1000)
    const [running] = await create(world, {})
    expect(await world.store.removableJobs({ olderThanMs: 1000, limit: 9 })).toEqual([])
    world.clock.pass(1)
    expect(await world.store.removableJobs({ olderThanMs: 1000, limit: 9 })).toEqual([done!.id])
    expect(await world.store.deleteJob(done!.id)).toBeNull()
    expect(await world.store.removableJobs({ olderThanMs: 0, limit: 9 })).toEqual([])
    expect(await status(world, running!)).toEqual(["READY"])
  })

  it("keeps an old job that was retried since it was listed", async () => {
    const world = await setup(open)
    const [retried, old] = await create(world, {}, {})
    for (const { id } of [retried!, old!]) await world.store.cancelJob(id)
    world.clock.pass(1001)
    expect(await world.store.removableJobs({ olderThanMs: 1000, limit: 9 })).toHaveLength(2)
    await world.store.retryJob(retried!.id)
    expect(await world.store.deleteJob(retried!.id, 1000)).toEqual({ rejected: "not_ended" })
    expect(await world.store.deleteJob(old!.id, 1000)).toBeNull()
    const claims = await world.claimJobs()
    expect(idsOf(claims)).toEqual([retried!.id])
    expect(await world.store.deleteJob(retried!.id, 1000)).toEqual({ rejected: "not_ended" })
    await world.turn({ changes: claims.map((claim) => world.ended(claim)) })
    expect(await world.store.deleteJob(retried!.id, 1000)).toEqual({ rejected: "not_ended" })
    expect(await status(world, retried!)).toEqual(["COMPLETED"])
  })

  describe("an update of a job", () => {
    it("sets the given fields and the time", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      world.clock.pass(7)
      const change = {
        name: "other",
        payload: 4,
        priority: 2,
        queue: "q2",
        retryPolicy: { ...DEFAULT_JOB_RETRY, max_attempts: 1 },
      }
      expect(await world.store.editJob(job!.id, change)).toEqual({ ...job, ...change, updatedAt: iso(BEGIN + 7) })
      expect(await world.claimJobs()).toEqual([])
      const [claim] = (await world.turn({ claim: 1, lanes: ["q:q2"] })).jobs
      expect(claim).toMatchObject({ priority: 2, job: { name: "other", payload: 4 } })
    })

    it("is rejected for a finished or unknown job", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      await world.turn({ changes: (await world.claimJobs()).map((claim) => world.ended(claim)) })
      expect(await world.store.editJob(job!.id, { name: "x" })).toEqual({ rejected: "terminal", status: "COMPLETED" })
      expect(await world.store.editJob(newJob(world).id, { name: "x" })).toEqual({ rejected: "not_found" })
    })

    it("of dependencies is accepted only for PENDING jobs and without a cycle", async () => {
      const world = await setup(open)
      const [a, b] = await create(world, {}, {})
      const [c] = await create(world, { dependencies: [a!.id] })
      const [d] = await create(world, { dependencies: [c!.id] })
      expect(await world.store.editJob(a!.id, { dependencies: [b!.id] })).toEqual({ rejected: "not_pending" })
      expect(await world.store.editJob(a!.id, { dependencies: [d!.id] })).toEqual({
        rejected: "cycle",
        path: [a!.id, d!.id, c!.id],
      })
      expect(await world.store.editJob(a!.id, { dependencies: [], name: "same" })).toMatchObject({ name: "same" })
      const nobody = newJob(world).id
      expect(await world.store.editJob(c!.id, { dependencies: [nobody] })).toMatchObject({ rejected: "missing_dependency" })
      expect(await world.store.editJob(c!.id, { dependencies: [b!.id, a!.id] })).toMatchObject({
        dependencies: [b!.id, a!.id],
        status: "PENDING",
      })
      const claims = await world.claimJobs()
      const end = (job: JobRow) => world.ended(claims.find((claim) => claim.job.id === job.id)!)
      await world.turn({ changes: [end(a!)] })
      expect(await world.store.editJob(c!.id, { dependencies: [a!.id] })).toMatchObject({ status: "READY" })
      expect(idsOf(await world.claimJobs())).toEqual([c!.id])
    })

    it("that adds a failed dependency blocks the job and all of its dependents", async () => {
      const world = await setup(open)
      const [a, b] = await create(world, { priority: 9 }, {})
      const [c] = await create(world, { dependencies: [b!.id] })
      const [d] = await create(world, { dependencies: [c!.id] })
      await world.turn({ changes: [world.ended((await world.claimJobs(1))[0]!, "failed")] })
      expect(await world.store.editJob(c!.id, { dependencies: [a!.id] })).toMatchObject({ status: "BLOCKED" })
      expect(await status(world, d!)).toEqual(["BLOCKED"])
    })

    it.each([{ name: "other" }, { queue: "other" }])("of a RUNNING job is kept by its success: %o", async (change) => {
      const world = await setup(open)
      const [job, next] = await create(world, { priority: 9 }, {})
      const [claim] = (await world.turn({ claim: 1 })).jobs
      expect(await world.store.editJob(job!.id, change)).toMatchObject(change)
      const { events, jobs } = await world.turn({ changes: [world.ended(claim!)], claim: 1 })
      expect(events.filter(({ status }) => status === "COMPLETED")).toMatchObject([{ jobId: job!.id, ...change }])
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "COMPLETED", ...change })
      expect(idsOf(jobs)).toEqual([next!.id])
    })

    it("of the queue of a RUNNING job keeps the slot counts correct", async () => {
      const world = await setup(open)
      const [a, b] = await create(world, { concurrencyKey: "k", priority: 9 }, { concurrencyKey: "k" })
      const [claim] = await world.claimJobs()
      await world.store.editJob(a!.id, { queue: "other" })
      expect(idsOf(await world.claimJobs())).toEqual([b!.id])
      const [c] = await create(world, { concurrencyKey: "k", queue: "other" })
      expect((await world.turn({ claim: 9, lanes: ["q:other"] })).jobs).toEqual([])
      const { jobs: claims } = await world.turn({ claim: 9, lanes: ["q:other"], changes: [world.ended(claim!)] })
      expect(idsOf(claims)).toEqual([c!.id])
    })
  })

  describe("cancellation of a job", () => {
    it("fails a waiting job and blocks its dependents", async () => {
      const world = await setup(open)
      const [a] = await create(world, {})
      const [b] = await create(world, { dependencies: [a!.id] })
      const [c] = await create(world, { dependencies: [b!.id] })
      expect(await world.store.cancelJob(b!.id)).toMatchObject({ status: "FAILED", error: "cancelled", finishedAt: iso(BEGIN) })
      expect(await status(world, a!, b!, c!)).toEqual(["READY", "FAILED", "BLOCKED"])
      expect(await world.store.cancelJob(a!.id)).toMatchObject({ status: "FAILED" })
      expect(await world.claimJobs()).toEqual([])
      expect(await world.store.cancelJob(a!.id)).toEqual({ rejected: "terminal", status: "FAILED" })
      expect(await world.store.cancelJob(newJob(world).id)).toEqual({ rejected: "not_found" })
    })

    it("of a RUNNING job is reported to its holder until the attempt has ended", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const [below] = await create(world, { dependencies: [job!.id] })
      const [claim] = await world.claimJobs()
      expect(await world.store.cancelJob(job!.id)).toMatchObject({ status: "RUNNING" })
      const other = await world.join("second")
      expect((await world.turn({ holder: other })).stopRequests).toEqual([])
      expect((await world.turn()).stopRequests).toEqual([claim!.attemptId])
      expect((await world.turn()).stopRequests).toEqual([claim!.attemptId])
      const last = await world.turn({ changes: [world.ended(claim!, "cancelled")] })
      expect(last).toMatchObject({ stopRequests: [], rejected: [] })
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "FAILED", error: "cancelled" })
      expect(await status(world, below!)).toEqual(["BLOCKED"])
    })

    it("of a RUNNING job keeps a success that was reported first", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const [claim] = await world.claimJobs()
      await world.store.cancelJob(job!.id)
      expect((await world.turn({ changes: [world.ended(claim!)] })).stopRequests).toEqual([])
      expect(await status(world, job!)).toEqual(["COMPLETED"])
    })

    it.each([
      ["tried again", (world: Jobs, claim: never) => world.again(claim, 0)],
      ["given back", (_: Jobs, claim: never) => ({ ...fence(claim), kind: "release" }) as const],
    ])("of a RUNNING job fails it when its attempt would be %s", async (_, change) => {
      const world = await setup(open)
      const [job] = await create(world, { concurrencyKey: "k" })
      const [claim] = await world.claimJobs()
      await world.store.cancelJob(job!.id)
      await world.turn({ changes: [change(world, claim as never)] })
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "FAILED", error: "cancelled" })
      const [next] = await create(world, { concurrencyKey: "k" })
      expect(idsOf(await world.claimJobs())).toEqual([next!.id])
    })

    it("is visible to the server that reaps the attempt of a dead holder", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const other = await world.join("second")
      await world.turn({ claim: 1, holder: other })
      await world.store.cancelJob(job!.id)
      await world.die(other)
      const [left] = await world.store.reapHolders(9)
      expect(left).toMatchObject({ cancelling: "cancel", job: { id: job!.id } })
      await world.turn({ changes: [world.ended(left!, "cancelled")] })
      expect(await status(world, job!)).toEqual(["FAILED"])
    })
  })

  describe("deletion of a job", () => {
    it("is rejected while others depend on it, finished or not", async () => {
      const world = await setup(open)
      const [a] = await create(world, {})
      const [b] = await create(world, { dependencies: [a!.id] })
      expect(await world.store.deleteJob(a!.id)).toEqual({ rejected: "has_dependents" })
      await world.store.cancelJob(a!.id)
      expect(await world.store.deleteJob(a!.id)).toEqual({ rejected: "has_dependents" })
      expect(await world.store.deleteJob(b!.id)).toBeNull()
      expect(await world.store.deleteJob(a!.id)).toBeNull()
      expect(await world.store.deleteJob(a!.id)).toEqual({ rejected: "not_found" })
      expect(await status(world, a!, b!)).toEqual([undefined, undefined])
    })

    it("removes it from the queue and allows its id again", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      await world.store.deleteJob(job!.id)
      expect(await world.claimJobs()).toEqual([])
      await create(world, { id: job!.id })
      expect(idsOf(await world.claimJobs())).toEqual([job!.id])
    })

    it("of a RUNNING job stops its attempt and frees the slot when the attempt has ended", async () => {
      const world = await setup(open)
      const [job, next] = await create(world, { concurrencyKey: "k", priority: 9 }, { concurrencyKey: "k" })
      const [claim] = await world.claimJobs()
      expect(await world.store.deleteJob(job!.id)).toBeNull()
      expect(await world.store.getJob(job!.id)).toBeNull()
      await create(world, { id: job!.id, queue: "other" })
      const turn = await world.turn({ claim: 9 })
      expect(turn).toMatchObject({ stopRequests: [claim!.attemptId], claims: [], jobs: [] })
      const last = await world.turn({ changes: [world.ended(claim!, "success")], claim: 9 })
      expect(idsOf(last.jobs)).toEqual([next!.id])
      expect(last).toMatchObject({ stopRequests: [], rejected: [] })
      expect(last.events.map(({ jobId }) => jobId)).toEqual([next!.id])
      expect(await status(world, job!)).toEqual(["READY"])
    })

    it("of a RUNNING job whose holder died leaves nothing behind", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const other = await world.join("second")
      await world.turn({ claim: 1, holder: other })
      await world.store.deleteJob(job!.id)
      await world.die(other)
      const [left] = await world.store.reapHolders(9)
      expect(left).toMatchObject({ cancelling: "cancel" })
      await world.turn({ changes: [world.ended(left!, "cancelled")] })
      expect(await world.store.reapHolders(9)).toEqual([])
      expect(await world.store.listHolders()).toHaveLength(1)
    })
  })
}
