// Random graphs of jobs with random results: after each advance every status follows the rules of core/rules/jobs/jobs.ts.

import { describe, expect, it } from "vitest"
import { dependencyStatus, isJobFinished, type JobStatus } from "../../../core/rules/jobs/jobs.ts"
import { canTransition, propagateCompletion, propagateFailure } from "../../../core/rules/jobs/published.ts"
import type { JobStore } from "../../contract/jobs.ts"
import type { Store } from "../../contract/store.ts"
import { create, newJob } from "./jobs.ts"
import { type Open, setup } from "../world.ts"

interface Model {
  id: string
  dependencies: string[]
  status: JobStatus
}

export const jobPropertyTests = (open: Open<Store & JobStore>): void => {
  describe("cascades over jobs", () => {
    it.each([1, 2, 3, 4, 5, 6])("are those of the rules (seed %i)", async (seed) => {
      const world = await setup(open, seed)
      const { random } = world
      const pick = (n: number): number => Math.floor(random.next() * n)
      const model: Model[] = []
      const made = Array.from({ length: 25 }, () => newJob(world))
      for (const [i, job] of made.entries())
        job.dependencies = [...new Set(Array.from({ length: pick(4) }, () => made[pick(i)]?.id ?? ""))].filter(
          (id) => id !== "" && id !== job.id,
        )
      for (const { id, status, dependencies } of await create(world, ...made)) model.push({ id, status, dependencies })
      const of = (id: string): Model => model.find((job) => job.id === id)!
      const move = (id: string, to: JobStatus): void => {
        const job = of(id)
        expect(canTransition(job.status, to) || (to === "FAILED" && !isJobFinished(job.status))).toBe(true)
        job.status = to
      }
      const check = async (): Promise<void> => {
        const rows = await world.store.searchJobs({ filter: {}, limit: 100 })
        expect(Object.fromEntries(rows.map(({ id, status }) => [id, status]))).toEqual(
          Object.fromEntries(model.map(({ id, status }) => [id, status])),
        )
      }
      const statuses = () => new Map(model.map(({ id, status }) => [id, status]))
      for (const job of model) expect(job.status).toBe(dependencyStatus(job, statuses()) === "SATISFIED" ? "READY" : "PENDING")
      const fail = (id: string): void => {
        move(id, "FAILED")
        for (const below of propagateFailure(id, model)) move(below, "BLOCKED")
      }
      for (let turn = 0; turn < 40 && model.some(({ status }) => status === "READY" || status === "PENDING"); turn++) {
        const claims = await world.claimJobs(1 + pick(3))
        for (const { job } of claims) move(job.id, "RUNNING")
        await check()
        const waiting = model.filter(({ status }) => status === "PENDING" || status === "READY")
        if (pick(8) === 0 && waiting.length > 0) {
          const { id } = waiting[pick(waiting.length)]!
          await world.store.cancelJob(id)
          fail(id)
          await check()
        }
        const changes = claims.map((claim) => {
          const what = pick(10)
          const id = claim.job.id
          if (what === 0) {
            fail(id)
            return world.ended(claim, "failed")
          }
          if (what < 3) {
            move(id, "READY")
            return world.again(claim, 0)
          }
          move(id, "COMPLETED")
          for (const ready of propagateCompletion(id, model)) move(ready, "READY")
          return world.ended(claim)
        })
        expect((await world.turn({ changes })).rejected).toEqual([])
        await check()
      }
    })
  })
}
