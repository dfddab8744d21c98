// Triggers on files and objects: since when they watch, and that each file is recorded once.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow, PathTrigger, TriggerSpec } from "../../../core/model/workflow.ts"
import type { Catalog } from "../../contract/catalog.ts"
import type { Store } from "../../contract/store.ts"
import type { PathTriggerRow, PathTriggerStore, TriggerStore, WatchedPath } from "../../contract/triggers.ts"
import { BEGIN, type Open, setup, type World } from "../world.ts"

type Watching = World<Store & Catalog & TriggerStore & PathTriggerStore>

const path = (pattern: string): PathTrigger => ({ path: pattern, everyMs: 1000 })

const flow = (triggers: TriggerSpec[], name = "load"): CompiledWorkflow => workflow({ a: {} }, { name, triggers })

const watchedBy = ({ id, workflowId, spec }: PathTriggerRow): WatchedPath => ({ id, workflowId, pattern: spec.path })

export const pathTriggerTests = (open: Open<Store & Catalog & TriggerStore & PathTriggerStore>): void => {
  const watched = async (world: Watching, position = 0): Promise<WatchedPath> =>
    watchedBy((await world.store.pathTriggers())[position]!)

  describe("triggers on paths", () => {
    it("watch a pattern from its deployment on, while the workflow is not paused", async () => {
      const world = await setup(open)
      await world.deploy(flow([path("/in/*"), { after: ["extract"], when: "all" }]))
      world.clock.pass(1000)
      await world.deploy(flow([path("/new/*"), path("/in/*")]))
      const found = (await world.store.pathTriggers()).map(({ spec, since }) => [spec.path, since])
      expect(found).toEqual([
        ["/new/*", iso(BEGIN + 1000)],
        ["/in/*", iso(BEGIN)],
      ])
      await world.store.setWorkflowPaused({ name: "load", paused: true, nextAt: [] })
      expect(await world.store.pathTriggers()).toEqual([])
      await world.store.setWorkflowPaused({ name: "load", paused: false, nextAt: [] })
      expect(await world.store.pathTriggers()).toHaveLength(2)
      await world.store.removeWorkflow("load")
      expect(await world.store.pathTriggers()).toEqual([])
    })

    it("record each version of a file once, also when several servers try at the same time", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow([path("/in/*")]))
      const watching = await watched(world)
      const files = ["a", "b"].map((name) => ({ path: `/in/${name}`, version: "1" }))
      expect(await world.store.unrecordedFiles(watching, files)).toEqual(files)
      const tries = await Promise.all(
        [1, 2, 3].map(() =>
          world.store.recordFiles(
            watching,
            files.map((file) => ({
              ...file,
              outcome: { run: world.newRun(version, { trigger: "path", cause: { path: file.path } }) },
            })),
          ),
        ),
      )
      const created = tries.flat().filter((run) => run !== null)
      expect(created.map(({ trigger, cause }) => [trigger, cause])).toEqual([
        ["path", { path: "/in/a" }],
        ["path", { path: "/in/b" }],
      ])
      expect(await world.store.listRuns({ workflow: "load", limit: 9 })).toHaveLength(2)
      const changed = { path: "/in/b", version: "2" }
      expect(await world.store.unrecordedFiles(watching, [...files, changed])).toEqual([changed])
    })

    it("remember what they took when they move within the definition, and forget it when they are removed", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow([path("/in/*")]))
      const file = { path: "/in/a", version: "1" }
      await world.store.recordFiles(await watched(world), [{ ...file, outcome: { run: world.newRun(version) } }])
      await world.deploy(flow([path("/new/*"), path("/in/*")]))
      expect(await world.store.unrecordedFiles(await watched(world, 0), [file])).toEqual([file])
      expect(await world.store.unrecordedFiles(await watched(world, 1), [file])).toEqual([])
      await world.deploy(flow([path("/new/*")]))
      await world.deploy(flow([path("/in/*")]))
      expect(await world.store.unrecordedFiles(await watched(world), [file])).toEqual([file])
    })

    it("keep a problem until it is solved", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow([path("/in/*")]))
      const watching = await watched(world)
      await world.store.setTriggerProblem(watching.id, "could not look")
      expect(await world.store.listTriggers("load")).toMatchObject([{ problem: "could not look" }])
      const record = (name: string, outcome: { problem: string } | { run: ReturnType<typeof world.newRun> }) =>
        world.store.recordFiles(watching, [{ path: name, version: "1", outcome }])
      expect(await record("a", { problem: "the params do not fit" })).toEqual([null])
      expect(await world.store.listTriggers("load")).toMatchObject([{ problem: "the params do not fit" }])
      expect(await world.store.unrecordedFiles(watching, [{ path: "a", version: "1" }])).toEqual([])
      await record("b", { run: world.newRun(version) })
      expect(await world.store.listTriggers("load")).toMatchObject([{ problem: null }])
    })
  })
}
