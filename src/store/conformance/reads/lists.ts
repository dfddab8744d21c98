// Lists of runs by every combination of filters.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { covers } from "../../../core/rules/access/permissions.ts"
import { workflow } from "../../../core/testing.ts"
import type { RunRow, Store } from "../../contract/store.ts"
import { BEGIN, type Open, setup } from "../world.ts"

type Query = Parameters<Store["listRuns"]>[0]

export const listTests = (open: Open): void => {
  describe("a list of runs", () => {
    const filled = async () => {
      const world = await setup(open)
      const runs: RunRow[] = []
      const triggers = ["manual", "schedule", "webhook"] as const
      for (let i = 0; i < 24; i++) {
        const name = i % 2 === 0 ? "even" : "odd"
        runs.push(await world.start({ ...workflow({ a: {} }), name }, { trigger: triggers[i % 3]! }))
        if (i % 4 === 3) world.clock.pass(1000)
      }
      const claims = await world.claim()
      await world.turn({ changes: claims.slice(0, 16).map((claim, i) => world.ended(claim, i % 2 ? "failed" : "success")) })
      const all = await Promise.all(runs.map(({ id }) => world.run(id)))
      return { world, all }
    }

    const expected = (all: readonly RunRow[], query: Partial<Query>): string[] =>
      all
        .filter((run) => query.workflow === undefined || run.workflow === query.workflow)
        .filter((run) => query.only?.some((limits) => covers(limits, { name: run.workflow, tags: [] })) ?? true)
        .filter((run) => query.status === undefined || run.status === query.status)
        .filter((run) => query.trigger === undefined || run.trigger === query.trigger)
        .filter((run) => run.createdAt >= (query.createdAfter ?? "") && run.createdAt < (query.createdBefore ?? "~"))
        .toSorted((a, b) => (`${a.createdAt} ${a.id}` > `${b.createdAt} ${b.id}` ? -1 : 1))
        .map(({ id }) => id)

    it("returns the runs that match every filter, in pages without gaps or repetitions", async () => {
      const { world, all } = await filled()
      const some = <T>(values: readonly T[]): (T | undefined)[] => [undefined, ...values]
      const limits = [[], [{ workflows: ["e*n"], tags: null }], [{ workflows: ["o*"], tags: null }]]
      const workflows = [
        ...some(["even", "nobody"]).map((name) => ({ name, only: undefined })),
        ...limits.map((only) => ({ name: undefined, only })),
        { name: "even", only: limits[1]! },
        { name: "even", only: limits[2]! },
      ]
      for (const { name, only } of workflows)
        for (const status of some(["running", "failed"] as const))
          for (const trigger of some(["schedule", "backfill"] as const))
            for (const createdAfter of some([iso(BEGIN + 1000)]))
              for (const createdBefore of some([iso(BEGIN + 4000)])) {
                const query: Partial<Query> = {
                  ...(name !== undefined && { workflow: name }),
                  ...(only !== undefined && { only }),
                  ...(status !== undefined && { status }),
                  ...(trigger !== undefined && { trigger }),
                  ...(createdAfter !== undefined && { createdAfter }),
                  ...(createdBefore !== undefined && { createdBefore }),
                }
                const pages: string[] = []
                for (let before: Query["before"]; ;) {
                  const page = await world.store.listRuns({ ...query, limit: 3, ...(before !== undefined && { before }) })
                  pages.push(...page.map(({ id }) => id))
                  if (page.length < 3) break
                  before = page.at(-1)!
                }
                expect({ query, found: pages }).toEqual({ query, found: expected(all, query) })
              }
    })

    it("keeps its position while runs are added", async () => {
      const { world, all } = await filled()
      const first = await world.store.listRuns({ status: "running", limit: 2 })
      await world.start(workflow({ a: {} }))
      const second = await world.store.listRuns({ status: "running", limit: 99, before: first.at(-1)! })
      expect([...first, ...second].map(({ id }) => id)).toEqual(expected(all, { status: "running" }))
    })
  })
}
