// Claims of unblocked rows on SQLite, which finds a row by the id that it expects.

import { describe, expect, it, onTestFinished, vi } from "vitest"
import { QUEUE_WILDCARD, restrictedWildcard } from "../../../core/routing/lanes.ts"
import { workflow } from "../../../core/testing.ts"
import { names, type Open, setup, type World } from "../../conformance/world.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { Database } from "../connection/database.ts"
import { openSqlite } from "../sqlite.ts"

const open: Open = async ({ clock, random }) => {
  const store = await openSqlite({ path: ":memory:", clock, random })
  await store.migrate()
  return { store, close: () => store.close() }
}

const CHAIN = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`t${i}`, { after: i === 0 ? [] : [`t${i - 1}`] }]))

const next = async (world: World, claims: readonly TaskClaim[], lanes: string[]): Promise<TaskClaim[]> =>
  (await world.turn({ changes: claims.map((claim) => world.ended(claim)), claim: 1, lanes })).claims

describe("a row that is claimed when it is unblocked", () => {
  it("is written once for both", async () => {
    const world = await setup(open)
    await world.start(workflow(CHAIN))
    let claims = await world.claim(1)
    const run = vi.spyOn(Database.prototype, "run")
    onTestFinished(() => run.mockRestore())
    for (let i = 0; i < 5; i++) claims = await next(world, claims, [QUEUE_WILDCARD])
    const written: unknown[] = []
    for (const [i, [sql]] of run.mock.calls.entries())
      if (sql.includes("upstream_pending = 0, status")) written.push(run.mock.results[i]!.value)
    expect(written).toEqual([1, 1, 1, 1, 1])
  })

  it("does not delay calls of functions", async () => {
    const world = await setup(open)
    const lanes = [QUEUE_WILDCARD, restrictedWildcard("fn", [])]
    await world.start(workflow(CHAIN))
    let claims = await world.turn({ claim: 1, lanes }).then((turn) => turn.claims)
    await world.start({ ...workflow({ call: { executor: "function", function: "fn" } }), name: "calls" })
    const seen: string[] = []
    for (let i = 0; i < 3; i++) seen.push(...names(world, (claims = await next(world, claims, lanes))))
    expect(seen).toContain("call")
  })
})
