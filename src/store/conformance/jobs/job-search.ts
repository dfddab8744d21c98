// Search over jobs, by every combination of filters.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import type { JobFilter, JobRow, JobStore } from "../../contract/jobs.ts"
import type { Store } from "../../contract/store.ts"
import { create, newJob } from "./jobs.ts"
import { BEGIN, type Open, setup } from "../world.ts"

export const jobSearchTests = (open: Open<Store & JobStore>): void => {
  describe("a search for jobs", () => {
    const filled = async () => {
      const world = await setup(open)
      for (let i = 0; i < 6; i++) {
        const jobs = Array.from({ length: 5 }, (_, k) =>
          newJob(world, { name: `n${k % 3}`, queue: k % 2 === 0 ? "a" : "b", priority: 1 + ((i * 5 + k) % 10) }),
        )
        await create(world, ...jobs)
        world.clock.pass(1000)
      }
      const { jobs: claims } = await world.turn({ claim: 9, lanes: ["q:*"] })
      await world.turn({ changes: claims.slice(0, 5).map((claim) => world.ended(claim)) })
      const all = await world.store.searchJobs({ filter: {}, limit: 100 })
      return { world, all }
    }

    const expected = (all: readonly JobRow[], filter: JobFilter): string[] =>
      all
        .filter(({ queue }) => filter.queue === undefined || queue === filter.queue)
        .filter(({ name }) => filter.name === undefined || name === filter.name)
        .filter(({ status }) => filter.status === undefined || [filter.status].flat().includes(status))
        .filter(({ priority }) => priority >= (filter.priorityMin ?? 1) && priority <= (filter.priorityMax ?? 10))
        .filter(({ createdAt }) => createdAt >= (filter.createdAfter ?? "") && createdAt < (filter.createdBefore ?? "~"))
        .toSorted((a, b) => (a.createdAt !== b.createdAt ? (a.createdAt > b.createdAt ? -1 : 1) : a.id < b.id ? -1 : 1))
        .map(({ id }) => id)

    it("returns the jobs that match every filter, newest first, then by id, in pages without gaps or repetitions", async () => {
      const { world, all } = await filled()
      expect(all).toHaveLength(30)
      let tried = 0
      const some = <T>(values: readonly T[]): (T | undefined)[] => [undefined, ...values]
      const named = [{}, { name: "n1" }, { name: "none" }]
      for (const queue of some(["a", "nobody"]))
        for (const status of some([...(["READY", "COMPLETED", "BLOCKED"] as const), ["READY", "RUNNING"] as const]))
          for (const priorityMin of some([3]))
            for (const priorityMax of some([3, 8]))
              for (const createdAfter of some([iso(BEGIN + 1000)]))
                for (const createdBefore of some([iso(BEGIN + 4000)])) {
                  const filter: JobFilter = {
                    ...named[(tried += 1) % named.length],
                    ...(queue !== undefined && { queue }),
                    ...(status !== undefined && { status }),
                    ...(priorityMin !== undefined && { priorityMin }),
                    ...(priorityMax !== undefined && { priorityMax }),
                    ...(createdAfter !== undefined && { createdAfter }),
                    ...(createdBefore !== undefined && { createdBefore }),
                  }
                  const found: string[] = []
                  for (let after: { createdAt: string; id: string } | undefined; ;) {
                    const page = await world.store.searchJobs({ filter, limit: 3, ...(after !== undefined && { after }) })
                    found.push(...page.map(({ id }) => id))
                    if (page.length < 3) break
                    after = page.at(-1)!
                  }
                  expect({ filter, found }).toEqual({ filter, found: expected(all, filter) })
                }
    })

    it("returns the current state of a job", async () => {
      const world = await setup(open)
      const [job] = await create(world, { priority: 2 })
      await world.store.editJob(job!.id, { priority: 9, queue: "moved" })
      const found = await world.store.searchJobs({ filter: { priorityMin: 9, queue: "moved", status: "READY" }, limit: 9 })
      expect(found).toEqual([await world.store.getJob(job!.id)])
      expect(await world.store.searchJobs({ filter: { priorityMax: 2 }, limit: 9 })).toEqual([])
      await world.turn({ claim: 1, lanes: ["q:moved"] })
      expect(await world.store.searchJobs({ filter: { status: "RUNNING" }, limit: 9 })).toHaveLength(1)
    })
  })
}
