// Deployed workflows and their versions.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { covers, type Limited } from "../../../core/rules/access/permissions.ts"
import { workflow } from "../../../core/testing.ts"
import type { Catalog } from "../../contract/catalog.ts"
import type { NewVersion, Store } from "../../contract/store.ts"
import { BEGIN, type Open, setup, type World } from "../world.ts"

const one = workflow({ a: {} })

const put = (world: World, hash: string, input: Partial<NewVersion> & { name?: string; tags?: string[] } = {}) => {
  const { name = "test", tags = [], ...rest } = input
  return world.store.putWorkflow({ compiled: { ...one, name, tags }, hash, source: `of ${hash}`, deploy: true, ...rest })
}

export const catalogTests = (open: Open<Store & Catalog>): void => {
  describe("a deployed workflow", () => {
    it("is the version that was stored last, with its time", async () => {
      const world = await setup(open)
      await put(world, "h1")
      world.clock.pass(10)
      const second = await put(world, "h2")
      world.clock.pass(10)
      await put(world, "h2")
      expect(await world.store.getWorkflow("test")).toEqual({
        id: second.workflowId,
        name: "test",
        version: 2,
        versionId: second.versionId,
        hash: "h2",
        source: "of h2",
        compiled: { ...one, tags: [] },
        paused: false,
        createdAt: iso(BEGIN),
        updatedAt: iso(BEGIN + 10),
      })
      expect(await world.store.getWorkflow("nobody")).toBeNull()
    })

    it("excludes a version that was stored only for a run", async () => {
      const world = await setup(open)
      await put(world, "h1", { deploy: false })
      expect(await world.store.getWorkflow("test")).toBeNull()
      expect(await world.store.listWorkflows({ limit: 9, runs: 1 })).toEqual([])
      expect(await put(world, "h1")).toMatchObject({ version: 1, outcome: "new" })
    })

    it("is not replaced when the caller requires a new name", async () => {
      const world = await setup(open)
      expect(await put(world, "h1", { ifNew: true })).toMatchObject({ outcome: "new" })
      expect(await put(world, "h2", { ifNew: true })).toMatchObject({ outcome: "exists", version: 1 })
      expect(await world.store.getWorkflow("test")).toMatchObject({ hash: "h1" })
      expect(await world.store.listVersions({ name: "test", limit: 9 })).toHaveLength(1)
    })

    it("disappears when removed, while its runs and versions remain", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      expect(await world.store.removeWorkflow("test")).toBe(true)
      expect(await world.store.removeWorkflow("test")).toBe(false)
      expect(await world.store.getWorkflow("test")).toBeNull()
      expect(await world.run(run.id)).toMatchObject({ workflow: "test" })
      expect(await world.claim()).toHaveLength(1)
      expect(await world.deploy(one)).toMatchObject({ version: 1, outcome: "new" })
    })

    it("lists its versions in pages, newest first", async () => {
      const world = await setup(open)
      for (const hash of ["h1", "h2", "h3"]) await put(world, hash)
      const page = await world.store.listVersions({ name: "test", limit: 2 })
      expect(page).toMatchObject([
        { version: 3, hash: "h3", source: "of h3", createdAt: iso(BEGIN) },
        { version: 2, hash: "h2" },
      ])
      expect(await world.store.listVersions({ name: "test", before: 2, limit: 2 })).toMatchObject([{ version: 1 }])
      expect(await world.store.listVersions({ name: "nobody", limit: 2 })).toEqual([])
    })
  })

  it("bundles are in use while a version names them, whether it is deployed or not", async () => {
    const world = await setup(open)
    await put(world, "h1", { compiled: { ...one, name: "test", bundle: "b1" } })
    await put(world, "h2", { compiled: { ...one, name: "test", bundle: "b2" } })
    await put(world, "h3", { name: "other" })
    expect((await world.store.bundlesInUse(["b1", "b2", "b3"])).toSorted()).toEqual(["b1", "b2"])
    expect(await world.store.bundlesInUse([])).toEqual([])
  })

  describe("the list of workflows", () => {
    const names = async (
      world: World<Store & Catalog>,
      query: Limited & { search?: string; tag?: string; after?: string; limit?: number },
    ) => (await world.store.listWorkflows({ limit: 99, runs: 0, ...query })).map(({ workflow }) => workflow.name)

    it("can be limited to some workflows by their names and tags", async () => {
      const world = await setup(open)
      const workflows = ["a", "A", "a_b", "a.b", "axb", "sales-eu", "sales-us", "resale"].flatMap((name) =>
        [[], ["hr"], ["sales", "eu"]].map((tags) => ({ name: `${name}${tags.length}`, tags })),
      )
      for (const { name, tags } of workflows) await put(world, name, { name, tags })
      const patterns = [null, ["a*"], ["a_b*"], ["*.b1"], ["sales-*"], ["*sale*"], ["A0", "axb*"], ["*s*e*0"], ["a"], ["*"]]
      for (const limits of patterns.flatMap((names) =>
        [null, ["sales"], ["eu", "hr"], ["e"]].map((tags) => ({ workflows: names, tags })),
      )) {
        const covered = workflows.filter((each) => covers(limits, each)).map(({ name }) => name)
        expect({ limits, found: (await names(world, { only: [limits] })).toSorted() }).toEqual({
          limits,
          found: covered.toSorted(),
        })
      }
      const both = [
        { workflows: ["a0"], tags: null },
        { workflows: null, tags: ["hr"] },
      ]
      expect(await names(world, { only: both, search: "a" })).toEqual([
        "A1",
        "a.b1",
        "a0",
        "a1",
        "a_b1",
        "axb1",
        "resale1",
        "sales-eu1",
        "sales-us1",
      ])
      expect(await names(world, { only: [] })).toEqual([])
      expect(await world.store.getTags("sales-eu2")).toEqual(["sales", "eu"])
      expect(await world.store.getTags("nobody")).toBeNull()
    })

    it("is ordered by name, searched by part of the name or by tag, and paged", async () => {
      const world = await setup(open)
      await put(world, "h", { name: "b-load", tags: ["sales"] })
      await put(world, "h", { name: "Report", tags: ["sales", "night"] })
      await put(world, "h", { name: "a_load" })
      expect(await names(world, {})).toEqual(["Report", "a_load", "b-load"])
      expect(await names(world, { limit: 2 })).toEqual(["Report", "a_load"])
      expect(await names(world, { after: "a_load", limit: 2 })).toEqual(["b-load"])
      expect(await names(world, { search: "LOAD" })).toEqual(["a_load", "b-load"])
      expect(await names(world, { search: "_" })).toEqual(["a_load"])
      expect(await names(world, { tag: "sales" })).toEqual(["Report", "b-load"])
      expect(await names(world, { tag: "sales", search: "rep" })).toEqual(["Report"])
      await put(world, "h2", { name: "Report", tags: [] })
      expect(await names(world, { tag: "sales" })).toEqual(["b-load"])
    })

    it("shows the last runs of each workflow, newest first", async () => {
      const world = await setup(open)
      const ids: string[] = []
      for (let i = 0; i < 3; i++) {
        ids.unshift((await world.start(one)).id)
        world.clock.pass(10)
      }
      await world.start({ ...one, name: "other" })
      await world.turn({ changes: (await world.claim(1)).map((claim) => world.ended(claim)) })
      const [other, mine] = await world.store.listWorkflows({ limit: 9, runs: 2 })
      expect(mine!.lastRuns.map(({ id }) => id)).toEqual(ids.slice(0, 2))
      expect(mine!.lastRuns[0]).toEqual({
        id: ids[0],
        number: 3,
        status: "running",
        createdAt: iso(BEGIN + 20),
        startedAt: iso(BEGIN + 20),
        finishedAt: null,
        idleMs: 0,
      })
      expect(other!.lastRuns).toHaveLength(1)
    })
  })
}
