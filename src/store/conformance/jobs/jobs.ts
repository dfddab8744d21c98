// Jobs: their states, order, dependencies and retries.

import { describe, expect, it } from "vitest"
import { uuidv7 } from "../../../core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { iso } from "../../../core/model/ports.ts"
import { JOB_DEFAULTS, type JobRow, type JobStore, type NewJob } from "../../contract/jobs.ts"
import type { JobClaim, Store } from "../../contract/store.ts"
import { BEGIN, type Open, setup, type World } from "../world.ts"

export type Jobs = World<Store & JobStore>

const TASK = { command: { shell: "true", vars: [] } }

export const newJob = (world: Jobs, input: Partial<NewJob> = {}): NewJob => ({
  id: uuidv7(world.clock.now(), world.random.hex128()),
  name: "resize",
  queue: "default",
  payload: null,
  priority: 5,
  dependencies: [],
  retryPolicy: DEFAULT_JOB_RETRY,
  task: TASK,
  ...JOB_DEFAULTS,
  ...input,
})

/** Creates the jobs and fails the test if they are rejected. */
export const create = async (world: Jobs, ...jobs: Partial<NewJob>[]): Promise<JobRow[]> => {
  const made = await world.store.createJobs(jobs.map((job) => newJob(world, job)))
  expect(made).toBeInstanceOf(Array)
  return made as JobRow[]
}

export const status = async (world: Jobs, ...jobs: { id: string }[]): Promise<(string | undefined)[]> =>
  Promise.all(jobs.map(async ({ id }) => (await world.store.getJob(id))?.status))

export const idsOf = (claims: readonly JobClaim[]): string[] => claims.map(({ job }) => job.id)

export const jobTests = (open: Open<Store & JobStore>): void => {
  describe("a new job", () => {
    it("is READY and has the given fields", async () => {
      const world = await setup(open)
      const input = newJob(world, { payload: { a: [1, null] }, priority: 8, concurrencyKey: "tenant", createdBy: "ci" })
      const [job] = (await world.store.createJobs([input])) as JobRow[]
      expect(job).toEqual({
        ...input,
        row: expect.any(Number),
        created: true,
        status: "READY",
        createdAt: iso(BEGIN),
        updatedAt: iso(BEGIN),
        attemptCount: 0,
        error: null,
        exitCode: null,
        output: null,
        worker: null,
        attemptId: null,
        availableAt: null,
        startedAt: null,
        finishedAt: null,
        progress: null,
        parked: null,
      })
      expect(await world.store.getJob(input.id)).toEqual(job)
      expect(await world.store.getJob(newJob(world).id)).toBeNull()
    })

    it("waits for its dependencies, whether in the same batch or older", async () => {
      const world = await setup(open)
      const [first] = await create(world, {})
      const a = newJob(world, { dependencies: [first!.id] })
      const b = newJob(world, { dependencies: [a.id, first!.id] })
      const made = await create(world, b, a)
      expect(made.map(({ id }) => id)).toEqual([b.id, a.id])
      expect(made[0]!.dependencies).toEqual([a.id, first!.id])
      expect(await status(world, first!, a, b)).toEqual(["READY", "PENDING", "PENDING"])
      expect(idsOf(await world.claimJobs())).toEqual([first!.id])
    })

    it("is READY when all of its dependencies are COMPLETED and BLOCKED when one has failed", async () => {
      const world = await setup(open)
      const [good, bad] = await create(world, {}, {})
      const claims = await world.claimJobs()
      const end = (job: JobRow) => claims.find((claim) => claim.job.id === job.id)!
      await world.turn({ changes: [world.ended(end(good!)), world.ended(end(bad!), "failed")] })
      const after = newJob(world, { dependencies: [good!.id] })
      const blocked = newJob(world, { dependencies: [good!.id, bad!.id] })
      const below = newJob(world, { dependencies: [blocked.id] })
      await create(world, below, blocked, after)
      expect(await status(world, after, blocked, below)).toEqual(["READY", "BLOCKED", "BLOCKED"])
      expect((await world.store.getJob(blocked.id))!.error).toContain(bad!.id)
      expect(idsOf(await world.claimJobs())).toEqual([after.id])
    })

    it("is rejected together with its batch when one job of the batch is invalid", async () => {
      const world = await setup(open)
      const [first] = await create(world, {})
      const fine = newJob(world)
      const nobody = newJob(world).id
      const lost = newJob(world, { dependencies: [nobody] })
      expect(await world.store.createJobs([fine, lost])).toEqual({
        rejected: "missing_dependency",
        id: lost.id,
        dependency: nobody,
      })
      expect(await world.store.createJobs([fine, newJob(world, { id: first!.id })])).toEqual({
        rejected: "exists",
        id: first!.id,
      })
      expect(await world.store.createJobs([fine, fine])).toEqual({ rejected: "exists", id: fine.id })
      const [x, y] = [newJob(world).id, newJob(world).id]
      const circle = [newJob(world, { id: x, dependencies: [y] }), newJob(world, { id: y, dependencies: [x] })]
      expect(await world.store.createJobs([fine, ...circle])).toEqual({
        rejected: "cycle",
        path: expect.arrayContaining([x, y]),
      })
      const self = newJob(world, { id: x, dependencies: [x] })
      expect(await world.store.createJobs([self])).toEqual({ rejected: "cycle", path: [x] })
      expect(await world.store.getJob(fine.id)).toBeNull()
      expect(await world.claimJobs()).toHaveLength(1)
    })
  })

  describe("a claim of a job", () => {
    it("carries the job and no run", async () => {
      const world = await setup(open)
      const [job] = await create(world, { payload: [1], priority: 7 })
      const [claim] = await world.claimJobs()
      const { row, createdAt } = job!
      const { attemptId, job: claimed, ...rest } = claim!
      expect(attemptId).toEqual(expect.any(String))
      expect(rest).toEqual({ kind: "job", row, attempt: 1, priority: 7, failures: 0, losses: 0, createdAt })
      const { id, name, queue, payload, retryPolicy, retry, timeoutMs, task } = job!
      expect(claimed).toEqual({ id, name, queue, payload, retryPolicy, retry, timeoutMs, task })
      expect(await world.store.getJob(job!.id)).toMatchObject({
        status: "RUNNING",
        attemptCount: 1,
        attemptId: claim!.attemptId,
        worker: "first",
      })
    })

    it("is ordered by priority, then age, then id", async () => {
      const world = await setup(open)
      const ids = Array.from({ length: 4 }, () => newJob(world).id).toSorted()
      await create(world, { id: ids[2]! }, { id: ids[1]! }, { id: ids[3]!, priority: 9 })
      world.clock.pass(1)
      await create(world, { id: ids[0]! })
      expect(idsOf(await world.claimJobs())).toEqual([ids[3], ids[1], ids[2], ids[0]])
    })

    it("leaves jobs without a task to the handlers of their queue", async () => {
      const world = await setup(open)
      const [job] = await create(world, { task: null, queue: "mail" })
      expect((await world.turn({ claim: 9, lanes: ["q:*"] })).jobs).toEqual([])
      expect((await world.turn({ claim: 9, lanes: ["q:mail"] })).jobs).toEqual([])
      expect(await status(world, job!)).toEqual(["READY"])
      expect(idsOf((await world.turn({ claim: 9, lanes: ["h:mail"] })).jobs)).toEqual([job!.id])
    })

    it("selects one job at a time among those with the same concurrency key", async () => {
      const world = await setup(open)
      const [a, b, c, d] = await create(
        world,
        { concurrencyKey: "t1" },
        { concurrencyKey: "t1" },
        { concurrencyKey: "t2" },
        { concurrencyKey: "t1", queue: "other" },
      )
      const first = await world.turn({ claim: 9, lanes: ["q:default", "q:other"] })
      const of1 = [a!, b!].map(({ id }) => id)
      expect(idsOf(first.jobs).filter((id) => of1.includes(id))).toHaveLength(1)
      expect(idsOf(first.jobs)).toEqual(expect.arrayContaining([c!.id, d!.id]))
      const running = first.jobs.find(({ job }) => of1.includes(job.id))!
      const next = await world.turn({ claim: 9, changes: [world.ended(running)] })
      expect(idsOf(next.jobs)).toEqual(of1.filter((id) => id !== running.job.id))
    })
  })

  describe("a job that is created in the tick of a turn", () => {
    it("is claimed by that turn", async () => {
      const world = await setup(open)
      await world.turn()
      const creating = create(world, { payload: [1] }, { priority: 7 })
      const claims = await world.claimJobs()
      const [first, second] = await creating
      expect(idsOf(claims)).toEqual([second!.id, first!.id])
      expect(first).toMatchObject({ status: "READY", created: true, payload: [1], row: claims[1]!.row })
      expect(await world.store.getJob(first!.id)).toMatchObject({ status: "RUNNING", attemptCount: 1 })
    })

    it("is not created twice, and its rejection does not fail the turn", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const [claim] = await world.claimJobs()
      const creating = world.store.createJobs([newJob(world, { id: job!.id })])
      const other = create(world, {})
      const { rejected } = await world.turn({ changes: [world.ended(claim!)], claim: 1 })
      expect(rejected).toEqual([])
      expect(await creating).toEqual({ rejected: "exists", id: job!.id })
      expect(await status(world, job!)).toEqual(["COMPLETED"])
      const [created] = await other
      expect(["READY", "RUNNING"]).toContain((await world.store.getJob(created!.id))!.status)
    })
  })

  describe("a finished job", () => {
    it("is COMPLETED with its output and unblocks its dependents", async () => {
      const world = await setup(open)
      const [a, b] = await create(world, {}, {})
      const [c] = await create(world, { dependencies: [a!.id, b!.id] })
      const [first, second] = await world.claimJobs()
      const half = await world.turn({ changes: [world.ended(first!, "success", { n: 1 })], claim: 9 })
      expect(half.jobs).toEqual([])
      expect(await status(world, c!)).toEqual(["PENDING"])
      world.clock.pass(5)
      const { jobs: claims, events } = await world.turn({ changes: [world.ended(second!)], claim: 9 })
      expect(idsOf(claims)).toEqual([c!.id])
      expect(events.map((event) => [event.type, event.jobId, event.status])).toEqual([
        ["job", second!.job.id, "COMPLETED"],
        ["job", c!.id, "READY"],
        ["job", c!.id, "RUNNING"],
      ])
      expect(await world.store.getJob(first!.job.id)).toMatchObject({ status: "COMPLETED", output: { inline: { n: 1 } } })
      expect(await world.store.getJob(c!.id)).toMatchObject({ updatedAt: iso(BEGIN + 5), createdAt: iso(BEGIN) })
    })

    it("that failed blocks all of its dependents in the same transaction", async () => {
      const world = await setup(open)
      const [a, other] = await create(world, { priority: 9 }, {})
      const [b] = await create(world, { dependencies: [a!.id, other!.id] })
      const [c] = await create(world, { dependencies: [b!.id] })
      const [claim] = await world.claimJobs(1)
      const { events } = await world.turn({ changes: [world.ended(claim!, "failed")] })
      expect(await status(world, a!, b!, c!, other!)).toEqual(["FAILED", "BLOCKED", "BLOCKED", "READY"])
      expect(events.map(({ jobId, status: emitted }) => [jobId, emitted])).toEqual([
        [a!.id, "FAILED"],
        [b!.id, "BLOCKED"],
        [c!.id, "BLOCKED"],
      ])
      await world.turn({ changes: (await world.claimJobs()).map((each) => world.ended(each)) })
      expect(await status(world, b!)).toEqual(["BLOCKED"])
    })

    it("is READY again while it waits for its retry, and keeps its attempts", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const [claim] = await world.claimJobs()
      const { nextDueMs, events } = await world.turn({ changes: [world.again(claim!, 10_000)], claim: 9 })
      expect(nextDueMs).toBe(10_000)
      expect(events.at(-1)).toMatchObject({ type: "job", status: "READY", availableAt: iso(BEGIN + 10_000) })
      expect(await world.store.getJob(job!.id)).toMatchObject({ status: "READY", attemptCount: 1, error: "it broke" })
      world.clock.pass(10_000)
      const [again] = await world.claimJobs()
      expect(again).toMatchObject({ attempt: 2, job: { id: job!.id } })
      expect(await world.store.listAttempts(job!.row)).toMatchObject([{ attempt: 1, state: "failed", exitCode: 3 }])
    })

    it("that has ended leaves no limit of its concurrency key behind", async () => {
      const world = await setup(open)
      await create(world, { concurrencyKey: "ended" }, { concurrencyKey: "ended" })
      const [first] = await world.claimJobs()
      await create(world, { concurrencyKey: "open" })
      expect(await world.claimJobs()).toHaveLength(1)
      await world.turn({ changes: [world.ended(first!)] })
      expect(await world.store.trimLimits(9)).toBe(0)
      const [last] = await world.claimJobs()
      await world.turn({ changes: [world.ended(last!)] })
      expect(await world.store.trimLimits(9)).toBe(1)
      await create(world, { concurrencyKey: "ended" }, { concurrencyKey: "ended" }, { concurrencyKey: "open" })
      expect(await world.claimJobs()).toHaveLength(1)
    })

    it("of a dead holder is returned with the fields that a decision needs", async () => {
      const world = await setup(open)
      const [job] = await create(world, {})
      const other = await world.join("second")
      const { jobs: claims } = await world.turn({ claim: 1, holder: other })
      await world.die(other)
      const [left] = await world.store.reapHolders(9)
      const { row, attemptId, job: claimed } = claims[0]!
      expect(row).toBe(job!.row)
      expect(left).toMatchObject({ kind: "job", row, attemptId, attempt: 1, cancelling: null, job: claimed })
      await world.turn({ changes: [world.again(left!, 0, "lost")] })
      expect((await world.claimJobs())[0]).toMatchObject({ attempt: 2 })
    })
  })
}
