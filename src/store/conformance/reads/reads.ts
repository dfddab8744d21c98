// Workflows and versions, lists, the result cache, past durations, retention.

import { describe, expect, it } from "vitest"
import type { Change, Output } from "../../../core/model/change.ts"
import type { RunId } from "../../../core/model/ids.ts"
import { workflow } from "../../../core/testing.ts"
import { BEGIN, expandAll, fence, type Open, setup, type World } from "../world.ts"

const one = workflow({ a: {} })
const fan = { foreach: { lit: [] }, reference: "items" }

const endAll = async (world: World, status: "success" | "failed" = "success"): Promise<void> => {
  await world.turn({ changes: (await world.claim()).map((claim) => world.ended(claim, status)) })
}

export const readTests = (open: Open): void => {
  describe("a workflow", () => {
    it("is identified by name and hash: storing the same version again changes nothing", async () => {
      const world = await setup(open)
      const put = (hash: string, name = "test") =>
        world.store.putWorkflow({ compiled: { ...one, name, description: hash }, hash, source: "text", deploy: true })
      const first = await put("h1")
      expect(first).toMatchObject({ version: 1, outcome: "new" })
      expect(await put("h1")).toEqual({ ...first, outcome: "same" })
      const second = await put("h2")
      expect(second).toMatchObject({ workflowId: first.workflowId, version: 2, outcome: "new_version" })
      expect(await put("h1")).toEqual({ ...first, outcome: "same" })
      expect(await put("h1", "other")).toMatchObject({ version: 1, outcome: "new" })
      expect((await world.store.getVersion(second.versionId)).description).toBe("h2")
      expect(world.store.getLoadedVersion(first.versionId)).toEqual({ ...one, description: "h1" })
    })

    it("of an unknown version throws NotFound", async () => {
      const world = await setup(open)
      await expect(world.store.getVersion(4711)).rejects.toMatchObject({ name: "NotFound" })
    })

    it("keeps the version of a run that started before a new deployment", async () => {
      const world = await setup(open)
      const old = await world.start(one)
      await world.start(workflow({ b: {}, c: {} }))
      expect(await world.statuses(old.id)).toEqual({ a: "pending" })
      expect(
        (await world.claim()).map(({ versionId, node }) => world.store.getLoadedVersion(versionId).nodes[node]!.name),
      ).toEqual(["a", "b", "c"])
    })
  })

  describe("lists", () => {
    it("of runs are paged, newest first, by workflow and status", async () => {
      const world = await setup(open)
      const ids: RunId[] = []
      for (let i = 0; i < 5; i++) {
        ids.unshift((await world.start({ ...one, name: i % 2 === 0 ? "even" : "odd" })).id)
        if (i === 2) await endAll(world)
        if (i !== 3) world.clock.pass(10)
      }
      const list = async (query: Partial<Parameters<typeof world.store.listRuns>[0]>) =>
        (await world.store.listRuns({ limit: 99, ...query })).map(({ id }) => id)
      const newest = await list({})
      expect(newest.toSorted()).toEqual(ids.toSorted())
      const pages: RunId[] = []
      for (let before: { createdAt: string; id: string } | undefined; ;) {
        const page = await world.store.listRuns(before === undefined ? { limit: 2 } : { limit: 2, before })
        if (page.length === 0) break
        pages.push(...page.map(({ id }) => id))
        before = page.at(-1)!
      }
      expect(pages).toEqual(newest)
      expect(await list({ workflow: "odd" })).toEqual(newest.filter((id) => id === ids[1] || id === ids[3]))
      expect(await list({ status: "success" })).toEqual(ids.slice(2))
      expect(await list({ workflow: "even", status: "running" })).toEqual([ids[0]])
      expect(await list({ workflow: "nobody" })).toEqual([])
    })

    it("of runs are limited to a workflow and a logical date", async () => {
      const world = await setup(open)
      const [day, next] = ["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"] as const
      const start = async (name: string, logicalDate: string | null) => {
        world.clock.pass(10)
        return (await world.start({ ...one, name }, { logicalDate })).id
      }
      const first = await start("a", day)
      const second = await start("a", day)
      await start("a", next)
      await start("a", null)
      await start("b", day)
      const list = async (limit: number) =>
        (await world.store.listRuns({ workflow: "a", logicalDate: day, limit })).map(({ id }) => id)
      expect(await list(9)).toEqual([second, first])
      expect(await list(1)).toEqual([second])
    })

    it("of tasks contain instances and hooks but no containers, in row order", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan }, b: {}, "on_exit.0": {} }))
      const [gate] = await world.gate()
      await world.turn({ changes: [expandAll(gate!, [1, 2])] })
      expect(Object.keys(await world.statuses(run.id))).toEqual(["b", "each[0]", "each[1]"])
      await endAll(world)
      const { gateClaims: gates } = await world.turn({ gate: 1 })
      await world.turn({ changes: [{ ...fence(gates[0]!), kind: "gather", status: "success", output: { inline: [] } }] })
      expect(Object.keys(await world.statuses(run.id))).toEqual(["b", "each[0]", "each[1]", "on_exit.0"])
      const [first] = await world.store.listTasks({ runId: run.id, limit: 1 })
      expect(await world.store.listTasks({ runId: run.id, after: first!.row, limit: 99 })).toHaveLength(3)
      expect(await world.store.listTasks({ runId: run.id, name: "b", limit: 99 })).toHaveLength(1)
      expect(await world.store.listTasks({ runId: run.id, name: "nobody", limit: 99 })).toEqual([])
      expect((await world.store.listRowStates(run.id)).map(({ node }) => node)).toEqual([0, 1])
    })

    it("of unknown things are empty, and single reads return null", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const nobody = world.newRun(await world.deploy(one)).id
      expect(await world.store.getRun(nobody)).toBeNull()
      expect(await world.store.listTasks({ runId: nobody, limit: 9 })).toEqual([])
      expect(await world.store.listRowStates(nobody)).toEqual([])
      expect(await world.store.getTask({ runId: nobody, name: "a", path: "" })).toBeNull()
      expect(await world.store.getTask({ runId: run.id, name: "a", path: "7" })).toBeNull()
      expect(await world.store.getTask({ runId: run.id, name: "b", path: "" })).toBeNull()
      expect(await world.store.listAttempts(4711)).toEqual([])
    })

    it("count every status of instances", async () => {
      const world = await setup(open)
      const names = ["a", "b", "c", "d", "e"]
      const run = await world.start(workflow(Object.fromEntries(names.map((name) => [name, {}]))))
      const [a, b, c, d] = await world.claim(4)
      await world.turn({
        changes: [
          world.ended(a!),
          world.ended(b!, "failed"),
          world.ended(c!, "cancelled"),
          { ...fence(d!), kind: "started", at: BEGIN },
        ],
      })
      expect((await world.run(run.id)).tasks).toEqual({
        pending: 1,
        dispatched: 0,
        running: 1,
        success: 1,
        failed: 1,
        skipped: 0,
        cancelled: 1,
      })
    })
  })

  describe("the cache", () => {
    const kept = async (
      world: World,
      cache: { key: string; ttlMs: number | null; output?: Output },
      status: "success" | "failed" = "success",
    ) => {
      const run = await world.start(one)
      const [claim] = await world.claim()
      const end = { ...world.ended(claim!, status, { rows: 3 }), cache } as Change
      await world.turn({ changes: [end] })
      return { workflowId: run.workflowId, task: "a", key: cache.key }
    }

    it("keeps the output of a success for its workflow, task and key", async () => {
      const world = await setup(open)
      const query = await kept(world, { key: "k", ttlMs: null })
      expect(await world.store.getCached(query)).toEqual({ inline: { rows: 3 } })
      world.clock.pass(10 ** 12)
      expect(await world.store.getCached(query)).toEqual({ inline: { rows: 3 } })
      for (const other of [{ key: "other" }, { task: "b" }, { workflowId: 4711 }])
        expect(await world.store.getCached({ ...query, ...other })).toBeNull()
    })

    it("refers to its own copy of a large output, whose key is in use until the entry expires", async () => {
      const world = await setup(open)
      const output = { key: "cache/1/a/output.json", bytes: 100_000 }
      const query = await kept(world, { key: "k", ttlMs: 1000, output })
      const inUse = () => world.store.cachedKeysInUse([output.key, "cache/1/b/output.json"])
      expect(await world.store.getCached(query)).toEqual(output)
      expect(await inUse()).toEqual([output.key])
      expect(await world.store.trimCache(9)).toBe(0)
      world.clock.pass(1001)
      expect(await inUse()).toEqual([])
      expect([await world.store.trimCache(9), await world.store.trimCache(9)]).toEqual([1, 0])
    })

    it("expires after the time to live, which a new success restarts", async () => {
      const world = await setup(open)
      const query = await kept(world, { key: "k", ttlMs: 1000 })
      world.clock.pass(999)
      expect(await world.store.getCached(query)).not.toBeNull()
      world.clock.pass(1)
      expect(await world.store.getCached(query)).toBeNull()
      await kept(world, { key: "k", ttlMs: 1000 })
      expect(await world.store.getCached(query)).not.toBeNull()
    })

    it("stores nothing of a failure or a stale attempt", async () => {
      const world = await setup(open)
      const query = await kept(world, { key: "k", ttlMs: null }, "failed")
      expect(await world.store.getCached(query)).toBeNull()
      await world.start(one)
      const [old] = await world.claim()
      await world.turn({ changes: [world.again(old!, 0, "lost")] })
      await world.turn({ changes: [{ ...world.ended(old!, "success", 1), cache: { key: "k", ttlMs: null } } as Change] })
      expect(await world.store.getCached(query)).toBeNull()
    })
  })

  it("returns how long the tasks of past successful runs took", async () => {
    const world = await setup(open)
    const lasting = async (seconds: number, status: "success" | "failed") => {
      await world.start(one)
      const [claim] = await world.claim()
      const result = { state: status, startedAt: world.clock.now(), finishedAt: world.clock.now() + seconds * 1000 } as const
      await world.turn({ changes: [{ ...fence(claim!), kind: "finish", status, result }] })
      world.clock.pass(1000)
    }
    expect(await world.store.pastDurations("test")).toEqual(new Map())
    await lasting(2, "success")
    await lasting(100, "failed")
    await lasting(4, "success")
    expect(await world.store.pastDurations("test")).toEqual(new Map([["a", 3]]))
    expect(await world.store.pastDurations("other")).toEqual(new Map())
  })

  describe("retention", () => {
    it("selects finished runs that are too old, oldest first", async () => {
      const world = await setup(open)
      const ids: RunId[] = []
      for (let i = 0; i < 4; i++) {
        ids.push((await world.start(one)).id)
        if (i < 3) await endAll(world)
        world.clock.pass(1000)
      }
      expect(await world.store.removableRuns({ olderThanMs: 2500, limit: 9 })).toEqual(ids.slice(0, 2))
      expect(await world.store.removableRuns({ olderThanMs: 0, limit: 2 })).toEqual(ids.slice(0, 2))
      expect(await world.store.removableRuns({ olderThanMs: 0, limit: 9 })).toEqual(ids.slice(0, 3))
    })

    it("selects finished runs beyond the newest ones of their workflow", async () => {
      const world = await setup(open)
      const ids: RunId[] = []
      for (const name of ["a", "a", "a", "b"]) {
        ids.push((await world.start({ ...one, name })).id)
        await endAll(world)
        world.clock.pass(1000)
      }
      expect(await world.store.removableRuns({ keep: 1, limit: 9 })).toEqual(ids.slice(0, 2))
      expect(await world.store.removableRuns({ keep: 2, olderThanMs: 3500, limit: 9 })).toEqual(ids.slice(0, 1))
    })

    it("does not select a run with unfinished hooks", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, "on_exit.0": {} }))
      await endAll(world)
      world.clock.pass(1000)
      expect(await world.store.removableRuns({ olderThanMs: 0, limit: 9 })).toEqual([])
      await endAll(world)
      expect(await world.store.removableRuns({ olderThanMs: 0, limit: 9 })).toHaveLength(1)
    })

    it("removes a run with its tasks and attempts in bounded steps, and nothing else", async () => {
      const world = await setup(open)
      const flow = workflow({ a: {}, b: {}, c: {} }, { concurrency: 3 })
      const run = await world.start(flow)
      const other = await world.start(flow)
      const claims = await world.claim()
      const again = claims.filter(({ runId }) => runId === run.id)
      await world.turn({ changes: again.map((claim) => world.again(claim, 0)) })
      await endAll(world)
      await world.turn({ changes: claims.filter(({ runId }) => runId === other.id).map((claim) => world.ended(claim)) })
      expect(await world.store.removeRun(run.id, 2)).toBe(false)
      expect(await world.store.retryRun(run.id, { rows: [] })).toBe(false)
      expect(await world.store.removeRun(run.id, 2)).toBe(true)
      expect(await world.store.getRun(run.id)).toBeNull()
      expect(await world.store.listAttempts(again[0]!.row)).toEqual([])
      expect(await world.store.removeRun(run.id, 2)).toBe(true)
      expect(await world.run(other.id)).toMatchObject({ status: "success", tasks: { success: 3 } })
      expect(await world.store.listTasks({ runId: other.id, limit: 9 })).toHaveLength(3)
    })

    it("does not remove a run that was retried and ended again after it was listed", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      await endAll(world)
      world.clock.pass(1000)
      const listedAt = world.clock.now()
      expect(await world.store.removableRuns({ olderThanMs: 500, limit: 9 })).toEqual([run.id])
      const upstream = { failed: 0, unmet: 0, waived: 0 }
      const reset = { node: 0, path: "", extent: "all", upstreamPending: 0, upstream } as const
      await world.store.retryRun(run.id, { rows: [{ ...reset, lane: "q:default", instanceLane: "q:default" }] })
      world.clock.pass(1)
      await endAll(world)
      await expect(world.store.removeRun(run.id, 0, listedAt)).rejects.toMatchObject({ name: "Conflict" })
      expect(await world.run(run.id)).toMatchObject({ status: "success" })
      world.clock.pass(1000)
      expect(await world.store.removeRun(run.id, 9, world.clock.now())).toBe(true)
    })

    it("does not remove an unfinished run", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      await expect(world.store.removeRun(run.id, 100)).rejects.toMatchObject({ name: "Conflict" })
      expect(await world.claim()).toHaveLength(1)
    })
  })
}
