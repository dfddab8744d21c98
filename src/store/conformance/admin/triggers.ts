// Triggers: which successes they record, and that each success is used once.

import { describe, expect, it } from "vitest"
import { planRetry, type RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow, TriggerSpec } from "../../../core/model/workflow.ts"
import type { Catalog } from "../../contract/catalog.ts"
import { Conflict } from "../../contract/errors.ts"
import type { NewRun, RunRow, Store } from "../../contract/store.ts"
import type { TriggerRow, TriggerStore } from "../../contract/triggers.ts"
import { type Open, setup, type World } from "../world.ts"

type Triggering = World<Store & Catalog & TriggerStore>

const after = (...names: string[]): TriggerSpec => ({ after: names, when: "all" })

const flow = (name: string, triggers?: TriggerSpec[]): CompiledWorkflow =>
  workflow({ a: {} }, { name, ...(triggers !== undefined && { triggers }) })

export const triggerTests = (open: Open<Store & Catalog & TriggerStore>): void => {
  const finish = async (world: Triggering, status: "success" | "failed" = "success"): Promise<void> => {
    const claims = await world.claim()
    await world.turn({ changes: claims.map((claim) => world.ended(claim, status)) })
  }

  const succeed = async (world: Triggering, name: string, input: Partial<NewRun> = {}): Promise<RunRow> => {
    const run = await world.start(flow(name), input)
    await finish(world)
    return run
  }

  const waiting = (world: Triggering): Promise<TriggerRow[]> => world.store.triggersWithSuccesses({ after: 0, limit: 99 })

  const recorded = async (world: Triggering): Promise<{ [workflow: string]: string[] }> => {
    const found: { [workflow: string]: string[] } = {}
    for (const { id, workflow: name } of await waiting(world)) {
      found[name] = (await world.store.successesOf(id, 99)).map(({ runId }) => runId)
    }
    return found
  }

  const pause = (world: Triggering, paused: boolean): Promise<boolean> =>
    world.store.setWorkflowPaused({ name: "report", paused, nextAt: [] })

  describe("triggers", () => {
    it("are stored and removed with the deployed version", async () => {
      const world = await setup(open)
      const { workflowId, versionId } = await world.deploy(flow("report", [after("extract"), after("load")]))
      expect(await world.store.listTriggers("report")).toEqual([
        {
          id: expect.any(Number),
          workflowId,
          workflow: "report",
          versionId,
          position: 0,
          spec: after("extract"),
          paused: false,
          problem: null,
        },
        expect.objectContaining({ position: 1, spec: after("load") }),
      ])
      await world.deploy(flow("report", [after("load")]))
      expect(await world.store.listTriggers("report")).toMatchObject([{ position: 0, spec: after("load") }])
      await world.store.removeWorkflow("report")
      expect(await world.store.listTriggers("report")).toEqual([])
      await succeed(world, "load")
      expect(await waiting(world)).toEqual([])
    })

    it("record the successful runs of the workflows that they name, with their dates", async () => {
      const world = await setup(open)
      await world.deploy(flow("report", [after("extract", "load")]))
      await world.deploy(flow("mail", [after("extract")]))
      const first = await succeed(world, "extract", { logicalDate: "2026-02-01T00:00:00.000Z", timezone: "Europe/Berlin" })
      await world.start(flow("extract"))
      await finish(world, "failed")
      await succeed(world, "other")
      const second = await succeed(world, "load")
      expect(await recorded(world)).toEqual({ report: [first.id, second.id], mail: [first.id] })
      const [report] = await waiting(world)
      expect(await world.store.successesOf(report!.id, 1)).toEqual([
        {
          id: expect.any(Number),
          workflow: "extract",
          runId: first.id,
          logicalDate: "2026-02-01T00:00:00.000Z",
          timezone: "Europe/Berlin",
        },
      ])
      expect(await world.store.triggersWithSuccesses({ after: report!.id, limit: 99 })).toMatchObject([{ workflow: "mail" }])
    })

    it("record neither private runs nor sub-workflows", async () => {
      const world = await setup(open)
      await world.deploy(flow("report", [after("extract")]))
      const own = await world.start(flow("extract"), { private: true })
      const { claims } = await world.turn({ claim: 1, lanes: [`p:${own.id}:w`] })
      await world.turn({ changes: [world.ended(claims[0]!)] })
      const parent = { row: 1, runId: own.id, task: "t", rootRunId: null, depth: 1, withinSameWorkflow: false }
      await succeed(world, "extract", { parent })
      expect(await waiting(world)).toEqual([])
    })

    it("record a run that succeeds after a retry", async () => {
      const world = await setup(open)
      await world.deploy(flow("report", [after("extract")]))
      const run = await world.start(flow("extract"))
      await finish(world, "failed")
      expect(await recorded(world)).toEqual({})
      const closed = await world.run(run.id)
      const plan = planRetry(world.store.getLoadedVersion(run.versionId), closed, await world.store.listRowStates(run.id), {})
      await world.store.retryRun(run.id, (plan as { reset: RetryReset }).reset)
      await finish(world)
      expect(await recorded(world)).toEqual({ report: [run.id] })
    })

    it("record nothing while they are paused", async () => {
      const world = await setup(open)
      await world.deploy(flow("report", [after("extract")]))
      await pause(world, true)
      expect(await world.store.listTriggers("report")).toMatchObject([{ paused: true }])
      await succeed(world, "extract")
      await pause(world, false)
      expect(await waiting(world)).toEqual([])
      const run = await succeed(world, "extract")
      expect(await recorded(world)).toEqual({ report: [run.id] })
    })

    it("keep what they recorded over a deployment, except for workflows that they no longer name", async () => {
      const world = await setup(open)
      await world.deploy(flow("report", [after("extract", "load")]))
      await succeed(world, "extract")
      const kept = await succeed(world, "load")
      await world.deploy(flow("report", [after("load", "check")]))
      expect(await recorded(world)).toEqual({ report: [kept.id] })
    })

    it("use each success once, also when several servers try at the same time", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow("report", [after("extract")]))
      await succeed(world, "extract")
      const [{ id: triggerId }] = (await waiting(world)) as [TriggerRow]
      const successes = (await world.store.successesOf(triggerId, 9)).map(({ id }) => id)
      const cause = { runs: [{ id: "x", workflow: "extract" }] }
      const tries = await Promise.all(
        [1, 2, 3].map(() =>
          world.store.useSuccesses([
            { triggerId, successes, outcome: { run: world.newRun(version, { trigger: "after", cause }) } },
          ]),
        ),
      )
      const created = tries.flat().filter((run) => run !== null)
      expect(created).toMatchObject([{ workflow: "report", trigger: "after", cause, status: "running" }])
      expect(await world.store.listRuns({ workflow: "report", limit: 9 })).toHaveLength(1)
      expect((await world.run(created[0]!.id)).cause).toEqual(cause)
      expect((await world.claim())[0]!.run.cause).toEqual(cause)
      expect(await waiting(world)).toEqual([])
    })

    it("keep why they created no run until they create one", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow("report", [after("extract")]))
      const useWith = async (outcome: { problem: string } | { run: NewRun } | null) => {
        await succeed(world, "extract")
        const [{ id: triggerId }] = (await waiting(world)) as [TriggerRow]
        const successes = (await world.store.successesOf(triggerId, 9)).map(({ id }) => id)
        return await world.store.useSuccesses([{ triggerId, successes, outcome }])
      }
      expect(await useWith({ problem: "the params do not fit" })).toEqual([null])
      expect(await useWith(null)).toEqual([null])
      expect(await world.store.listTriggers("report")).toMatchObject([{ problem: "the params do not fit" }])
      expect(await useWith({ run: world.newRun(version) })).toMatchObject([{ workflow: "report" }])
      expect(await world.store.listTriggers("report")).toMatchObject([{ problem: null }])
      expect(await waiting(world)).toEqual([])
    })

    it("that would form a cycle are rejected with its names, and change nothing", async () => {
      const world = await setup(open)
      await world.deploy(flow("b", [after("a")]))
      await world.deploy(flow("c", [after("b")]))
      const rejected = world.deploy(flow("a", [after("c")]))
      await expect(rejected).rejects.toThrow(Conflict)
      await expect(rejected).rejects.toThrow("a → b → c → a")
      expect(await world.store.getWorkflow("a")).toBeNull()
      await world.deploy(flow("b"))
      await world.deploy(flow("a", [after("c")]))
      expect(await world.store.listTriggers("a")).toHaveLength(1)
    })

    it("of workflows that are deployed at the same time form no cycle", async () => {
      const world = await setup(open)
      const tries = await Promise.allSettled([world.deploy(flow("a", [after("b")])), world.deploy(flow("b", [after("a")]))])
      expect(tries.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"])
    })
  })
}
