// Runs that wait for the success of an earlier run (`depends_on_past`).

import { describe, expect, it } from "vitest"
import { planRetry, type RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { workflow } from "../../../core/testing.ts"
import type { RunRow, Store } from "../../contract/store.ts"
import type { StatsStore } from "../../contract/stats.ts"
import { type Open, setup, type World } from "../world.ts"

type Depending = World<Store & StatsStore>

const flow = workflow({ a: {} })

export const dependsOnPastTests = (open: Open<Store & StatsStore>): void => {
  const finish = async (world: Depending, status: "success" | "failed"): Promise<void> => {
    const claims = await world.claim()
    await world.turn({ changes: claims.map((claim) => world.ended(claim, status)) })
  }

  /** Starts a run, and a second one that waits for its success. */
  const startTwo = async (world: Depending): Promise<[RunRow, RunRow]> => {
    const first = await world.start(flow)
    return [first, await world.start(flow, { previousRun: first.id })]
  }

  const status = async (world: Depending, run: RunRow): Promise<string> => (await world.run(run.id)).status

  describe("a run that depends on the past", () => {
    it("starts when the earlier run has succeeded", async () => {
      const world = await setup(open)
      const [first, second] = await startTwo(world)
      expect([second.status, second.previousRun]).toEqual(["pending", first.id])
      await finish(world, "success")
      expect(await status(world, second)).toBe("running")
      expect(await status(world, await world.start(flow, { previousRun: first.id }))).toBe("running")
    })

    it("waits after a failure until a retry of the earlier run succeeds, while other runs start", async () => {
      const world = await setup(open)
      const [first, second] = await startTwo(world)
      await finish(world, "failed")
      expect(await status(world, second)).toBe("pending")
      const other = await world.start(flow)
      expect(other.status).toBe("running")
      await finish(world, "success")
      expect(await status(world, second)).toBe("pending")
      const nodes = await world.store.listRowStates(first.id)
      const plan = planRetry(world.store.getLoadedVersion(first.versionId), await world.run(first.id), nodes, {})
      await world.store.retryRun(first.id, (plan as { reset: RetryReset }).reset)
      await finish(world, "success")
      expect(await status(world, second)).toBe("running")
    })

    it("starts when the failed task of the earlier run is marked as successful", async () => {
      const world = await setup(open)
      const [first, second] = await startTwo(world)
      await finish(world, "failed")
      await world.store.overrideOutcome({ runId: first.id, name: "a", path: "", status: "success", reason: "by hand" })
      expect(await status(world, first)).toBe("success")
      expect(await status(world, second)).toBe("running")
    })

    it("starts when the earlier run is removed", async () => {
      const world = await setup(open)
      const [first, second] = await startTwo(world)
      await finish(world, "failed")
      expect(await world.store.removeRun(first.id, 100)).toBe(true)
      expect(await world.run(second.id)).toMatchObject({ status: "running", previousRun: null })
      expect(await world.claim()).toHaveLength(1)
    })

    it("waits for the run that has the key of an earlier run of the call", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow)
      const first = await world.start(flow, { idempotencyKey: "first" })
      const again = world.newRun(version, { idempotencyKey: "first" })
      const next = world.newRun(version, { previousRun: again.id })
      const last = world.newRun(version, { previousRun: next.id })
      const created = await world.store.createRuns([again, next, last])
      expect(created.map(({ run }) => [run.id, run.status, run.previousRun])).toEqual([
        [first.id, "running", null],
        [next.id, "pending", first.id],
        [last.id, "pending", next.id],
      ])
      await finish(world, "success")
      expect((await world.run(next.id)).status).toBe("running")
    })

    it("keeps to max_active_runs", async () => {
      const world = await setup(open)
      const one = { ...flow, maxActiveRuns: 1 }
      const first = await world.start(one)
      const second = await world.start(one, { previousRun: first.id })
      const third = await world.start(one)
      await finish(world, "failed")
      expect([await status(world, second), await status(world, third)]).toEqual(["pending", "running"])
    })
  })
}
