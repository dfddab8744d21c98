// Retry of a finished run by a user.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { iso } from "../../../core/model/ports.ts"
import { planRetry, type RetryRequest, type RetryReset } from "../../../core/rules/runs/retry-plan.ts"
import { workflow } from "../../../core/testing.ts"
import type { RunRow } from "../../contract/store.ts"
import { BEGIN, expandAll, fence, names, type Open, setup, WORK, type World } from "../world.ts"

const fan = { foreach: { lit: [] }, reference: "items" }

const planOf = async (world: World, run: RunRow, request: RetryRequest = {}): Promise<RetryReset> => {
  const plan = planRetry(world.store.getLoadedVersion(run.versionId), run, await world.store.listRowStates(run.id), request)
  if ("problem" in plan) throw new Error(plan.problem)
  return plan.reset
}

/** Retries a finished run. Returns whether the store accepted the plan. */
export const retry = async (world: World, run: RunRow, request: RetryRequest = {}): Promise<boolean> =>
  world.store.retryRun(run.id, await planOf(world, run, request))

/** Finishes everything that can be claimed, failing the named tasks and skipping gated ones, until nothing changes. */
const finish = async (world: World, failing: string[] = []): Promise<string[]> => {
  const done: string[] = []
  let changes: Change[] = []
  for (;;) {
    const { claims, gateClaims: gates } = await world.turn({ changes, claim: 100, gate: 100 })
    if (claims.length + gates.length === 0) return done
    const labels = names(world, claims)
    done.push(...labels)
    changes = [
      ...claims.map((claim, i) => world.ended(claim, failing.includes(labels[i]!) ? "failed" : "success", i)),
      ...gates.map((gate): Change => ({ ...fence(gate), kind: "skip", skipReason: "unmet", reason: "upstream failed" })),
    ]
  }
}

/** Starts a run of `each` over n items and gathers it. */
const fanned = async (world: World, count: number, failing: number[]): Promise<RunRow> => {
  const run = await world.start(workflow({ each: { fan }, after: { after: ["each"] } }))
  await expandAndGather(world, count, failing)
  await finish(world)
  return run
}

const expandAndGather = async (world: World, count: number, failing: number[]): Promise<void> => {
  const [gate] = await world.gate()
  const items = Array.from({ length: count }, (_, i) => `item ${i}`)
  await world.turn({ changes: [expandAll(gate!, items)] })
  await endInstances(world, failing)
}

const endInstances = async (world: World, failing: number[]): Promise<string[]> => {
  const claims = await world.claim()
  const ends = claims.map((claim) =>
    world.ended(claim, failing.includes(Number(claim.path)) ? "failed" : "success", claim.path),
  )
  const { gateClaims: gates } = await world.turn({ changes: ends, gate: 9 })
  const status = failing.length > 0 ? "failed" : "success"
  await world.turn({ changes: [{ ...fence(gates[0]!), kind: "gather", status, output: { inline: "gathered" } }] })
  return names(world, claims)
}

export const retryRunTests = (open: Open): void => {
  describe("a retry of a run", () => {
    const flow = workflow({ a: {}, b: {}, c: { after: ["a"] }, d: { after: ["c"] }, "on_failure.0": {}, "on_exit.0": {} })

    it("runs failed and skipped tasks again and keeps successes", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      await finish(world, ["c"])
      expect(await world.statuses(run.id)).toMatchObject({ a: "success", b: "success", c: "failed", d: "skipped" })
      world.clock.pass(60_000)
      expect(await retry(world, run)).toBe(true)
      expect(await world.run(run.id)).toMatchObject({
        status: "running",
        finishedAt: null,
        error: null,
        cancelling: null,
        hooksPending: 0,
        tasks: { pending: 2, success: 2, failed: 0, skipped: 0 },
      })
      // The hooks of the first generation are removed.
      expect(Object.keys(await world.statuses(run.id))).toEqual(["a", "b", "c", "d"])
      expect(await finish(world)).toEqual(["c", "d", "on_exit.0"])
      expect(await world.run(run.id)).toMatchObject({
        status: "success",
        finishedAt: iso(BEGIN + 60_000),
        tasks: { success: 4 },
      })
    })

    it("continues the attempt numbers with new retry budgets and keeps the old attempt", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      const [first] = await world.claim()
      const [second] = (await world.turn({ changes: [world.again(first!, 0)], claim: 1 })).claims
      await world.turn({ changes: [world.ended(second!, "failed")] })
      await retry(world, run)
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "pending",
        attempt: 2,
        attemptId: null,
        failures: 0,
        losses: 0,
        lastAttemptState: null,
        error: null,
        output: null,
        dispatchedAt: null,
        startedAt: null,
        finishedAt: null,
      })
      const [third] = await world.claim()
      expect(third).toMatchObject({ attempt: 3, failures: 0 })
      const attempts = await world.store.listAttempts(third!.row)
      expect(attempts.map(({ attempt, attemptId, state }) => [attempt, attemptId, state])).toEqual([
        [1, first!.attemptId, "failed"],
        [2, second!.attemptId, "failed"],
      ])
    })

    it("from a task runs it and everything downstream, whatever their status", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      await finish(world)
      expect(await retry(world, run, { from: "c" })).toBe(true)
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 2, success: 2 })
      expect(await finish(world)).toEqual(["c", "d", "on_exit.0"])
    })

    it("that keeps a failure which `continue_on_error` allows can succeed", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { continueOnError: true }, b: {} }))
      await finish(world, ["a", "b"])
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "task b failed" })
      expect(await retry(world, run, { from: "b" })).toBe(true)
      expect(await finish(world)).toEqual(["b"])
      expect(await world.run(run.id)).toMatchObject({ status: "success", tasks: { failed: 1, success: 1 } })
    })

    it("is rejected when the run has finished again since the plan was made", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      await finish(world, ["a"])
      const stale = await planOf(world, await world.run(run.id))
      world.clock.pass(1000)
      expect(await world.store.retryRun(run.id, stale)).toBe(true)
      await finish(world, ["a"])
      expect(await world.store.retryRun(run.id, stale)).toBe(false)
      expect(await world.run(run.id)).toMatchObject({ status: "failed" })
      expect(await retry(world, await world.run(run.id))).toBe(true)
    })

    it("does not count the break before it in the duration of the run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      world.clock.pass(1000)
      await finish(world, ["a"])
      for (const idleMs of [3_600_000, 7_200_000]) {
        world.clock.pass(3_600_000)
        await retry(world, await world.run(run.id))
        expect(await world.run(run.id)).toMatchObject({ startedAt: iso(BEGIN), finishedAt: null, idleMs })
        world.clock.pass(500)
        await finish(world, ["a"])
      }
      expect(await world.run(run.id)).toMatchObject({ finishedAt: iso(BEGIN + 7_202_000), idleMs: 7_200_000 })
    })

    it("restarts the run's timeout", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }, { timeoutMs: 1000 }))
      await finish(world, ["a"])
      world.clock.pass(5000)
      await retry(world, run)
      expect((await world.turn()).nextDueMs).toBe(1000)
    })

    it("is rejected for an unknown run and while the run or its hooks are unfinished", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const plan: RetryReset = { rows: [] }
      expect(await world.store.retryRun(run.id, plan)).toBe(false)
      const claims = await world.claim()
      await world.turn({ changes: claims.map((claim) => world.ended(claim, "failed")) })
      const { gateClaims: gates } = await world.turn({ gate: 9 })
      const skips = gates.map((gate): Change => ({ ...fence(gate), kind: "skip", skipReason: "unmet", reason: "" }))
      const next = await world.turn({ changes: skips, gate: 9 })
      const { claims: hooks, closed } = await world.turn({
        changes: next.gateClaims.map((gate): Change => ({ ...fence(gate), kind: "skip", skipReason: "unmet", reason: "" })),
        claim: 9,
      })
      expect(closed).toHaveLength(1)
      expect(await retry(world, run)).toBe(false)
      await world.turn({ changes: hooks.map((hook) => world.ended(hook)) })
      expect(await retry(world, run)).toBe(true)
      expect(await world.store.retryRun(world.newRun(await world.deploy(flow)).id, plan)).toBe(false)
    })

    it("of a cancelled run continues where it stopped", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const [a] = await world.claim(1)
      await world.store.requestCancel(run.id, "cancel")
      await world.turn({ changes: [world.ended(a!)] })
      await finish(world)
      expect((await world.run(run.id)).status).toBe("cancelled")
      expect(await retry(world, run)).toBe(true)
      expect(await finish(world)).toEqual(["b", "c", "d", "on_exit.0"])
      expect((await world.run(run.id)).status).toBe("success")
    })

    it("of a run that was cancelled before its start starts it", async () => {
      const world = await setup(open)
      const version = await world.deploy(workflow({ a: {} }, { maxActiveRuns: 1 }))
      const made = await world.store.createRuns([world.newRun(version), world.newRun(version)])
      const second = made[1]!.run
      await world.store.requestCancel(second.id, "cancel")
      await world.turn()
      expect(await world.store.retryRun(second.id, { rows: [] })).toBe(true)
      expect(await world.run(second.id)).toMatchObject({ status: "pending" })
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      expect(await world.run(second.id)).toMatchObject({ status: "running", tasks: { pending: 1 } })
    })

    describe("under max_active_runs", () => {
      const limited = workflow({ a: {}, b: { after: ["a"] }, "on_exit.0": {} }, { maxActiveRuns: 1, timeoutMs: 60_000 })

      const failedThenBusy = async (world: World): Promise<{ failed: RunRow; busy: RunRow }> => {
        const version = await world.deploy(limited)
        const [first, second] = await world.store.createRuns([world.newRun(version), world.newRun(version)])
        const [a] = await world.claim(1)
        await world.turn({ changes: [world.ended(a!)] })
        const [b] = await world.claim(1)
        await world.turn({ changes: [world.ended(b!, "failed")] })
        const hook = (await world.claim()).find(({ runId }) => runId === first!.run.id)!
        await world.turn({ changes: [world.ended(hook)] })
        return { failed: await world.run(first!.run.id), busy: second!.run }
      }

      it("waits for its place and then runs what has failed", async () => {
        const world = await setup(open)
        const { failed, busy } = await failedThenBusy(world)
        expect(await retry(world, failed)).toBe(true)
        expect(await world.run(failed.id)).toMatchObject({ status: "pending", finishedAt: null, error: null })
        expect(await world.claim()).toEqual([])
        expect(await world.store.retryRun(failed.id, { rows: [] })).toBe(false)
        world.clock.pass(1000)
        await world.store.requestCancel(busy.id, "cancel")
        const live = await world.store.listInFlight(world.holder)
        await world.turn({ changes: live.map((claim) => world.ended(claim, "cancelled")) })
        expect(await world.run(failed.id)).toMatchObject({ status: "running", tasks: { success: 1, pending: 1 } })
        expect((await world.turn()).nextDueMs).toBe(60_000)
        expect(await finish(world)).toEqual(["b", "on_exit.0", "on_exit.0"])
        expect((await world.run(failed.id)).status).toBe("success")
      })

      it("can be cancelled while it waits, and its tasks stay as they were", async () => {
        const world = await setup(open)
        const { failed } = await failedThenBusy(world)
        await retry(world, failed)
        await world.store.requestCancel(failed.id, "cancel")
        await world.turn()
        expect(await world.run(failed.id)).toMatchObject({ status: "cancelled", tasks: { success: 1, failed: 1, pending: 0 } })
        expect(names(world, await world.claim())).toEqual(["on_exit.0"])
      })

      it("starts at once while there is a place", async () => {
        const world = await setup(open)
        const { failed, busy } = await failedThenBusy(world)
        await world.store.requestCancel(busy.id, "cancel")
        const live = await world.store.listInFlight(world.holder)
        await world.turn({ changes: live.map((claim) => world.ended(claim, "cancelled")) })
        expect(await retry(world, failed)).toBe(true)
        expect((await world.run(failed.id)).status).toBe("running")
      })
    })

    it("keeps the limits of the retried tasks", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: {} }, { concurrency: 1 }))
      for (let i = 0; i < 3; i++)
        await world.turn({ changes: (await world.claim()).map((claim) => world.ended(claim, "failed")) })
      await retry(world, run)
      expect(await world.claim()).toHaveLength(1)
      expect(await world.claim()).toEqual([])
    })
  })

  describe("a retry of a fan-out", () => {
    it("that a cancellation interrupted continues the expansion and keeps successes", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const [gate] = await world.gate()
      const part = { ...expandAll(gate!, ["a", "b"]), total: 4 } as Change
      const { claims } = await world.turn({ changes: [part, { ...fence(gate!), kind: "release" }], claim: 1 })
      await world.store.requestCancel(run.id, "cancel")
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(claims[0]!)], gate: 9 })
      await world.turn({ changes: [{ ...fence(gates[0]!), kind: "gather", status: "cancelled", output: { inline: null } }] })
      expect(await world.statuses(run.id)).toEqual({ "each[0]": "success", "each[1]": "cancelled" })

      expect(await retry(world, run)).toBe(true)
      const [again] = await world.claim()
      expect(names(world, [again!])).toEqual(["each[1]"])
      const [rest] = await world.gate()
      expect(rest).toMatchObject({ kind: "fan", childrenCreated: 2, instanceCount: 4, childrenPending: 3 })
      await world.turn({ changes: [{ ...part, ...fence(rest!), items: ["c", "d"], offset: 2 } as Change] })
      const left = await world.claim()
      expect(left.map(({ path, item, instanceCount }) => [path, item, instanceCount])).toEqual([
        ["2", "c", 4],
        ["3", "d", 4],
      ])
      const ends = [again!, ...left].map((claim) => world.ended(claim))
      expect((await world.turn({ changes: ends, gate: 9 })).gateClaims).toMatchObject([
        { childrenPending: 0, childrenFailed: 0 },
      ])
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 4, pending: 0, cancelled: 0 })
    })

    it("runs only its failed instances again", async () => {
      const world = await setup(open)
      const run = await fanned(world, 5, [1, 3])
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 3, failed: 2, skipped: 1 })
      expect(await retry(world, run)).toBe(true)
      expect((await world.run(run.id)).tasks).toMatchObject({ success: 3, failed: 0, pending: 3 })
      expect(await world.task(run.id, "each")).toMatchObject({ status: "running" })
      expect(await endInstances(world, [])).toEqual(["each[1]", "each[3]"])
      expect(await world.task(run.id, "each", "1")).toMatchObject({ status: "success", attempt: 2, item: "item 1" })
      expect(await finish(world)).toEqual(["after"])
      expect(await world.run(run.id)).toMatchObject({ status: "success", tasks: { success: 6, failed: 0 } })
    })

    it("runs one instance again, whatever its status, and gathers it with the others", async () => {
      const world = await setup(open)
      const run = await fanned(world, 4, [2])
      expect(await retry(world, run, { instance: { task: "each", path: "0" } })).toBe(true)
      const [claim] = await world.claim()
      expect(claim).toMatchObject({ path: "0", attempt: 2 })
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(claim!)], claim: 9, gate: 9 })
      expect(gates[0]).toMatchObject({ kind: "fan", instanceCount: 4, childrenCreated: 4, childrenFailed: 1 })
    })

    it("from the fan-out expands it again: instances keep their attempt numbers, and those beyond the new list are removed", async () => {
      const world = await setup(open)
      const run = await fanned(world, 5, [])
      expect(await retry(world, run, { from: "each" })).toBe(true)
      const [gate] = await world.gate()
      expect(gate).toMatchObject({ childrenCreated: 0, instanceCount: null })
      await world.turn({ changes: [expandAll(gate!, ["new 0", "new 1", "new 2"])] })
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 4, success: 0 })
      const listed = await world.store.listTasks({ runId: run.id, name: "each", limit: 99 })
      expect(listed.map(({ path, status, attempt, item }) => ({ path, status, attempt, item }))).toEqual(
        ["0", "1", "2"].map((path) => ({ path, status: "pending", attempt: 1, item: `new ${path}` })),
      )
      expect(await world.store.listAttempts(listed[0]!.row)).toMatchObject([{ attempt: 1, state: "success" }])
      expect(await endInstances(world, [])).toEqual(["each[0]", "each[1]", "each[2]"])
      expect((await world.task(run.id, "each", "0")).attempt).toBe(2)
      expect(await world.store.childOutputs({ containerRow: gate!.row, after: 0, limit: 99 })).toHaveLength(3)
    })

    it("expands again to more instances than before, in index order", async () => {
      const world = await setup(open)
      const run = await fanned(world, 2, [])
      await retry(world, run, { from: "each" })
      await expandAndGather(world, 4, [])
      expect((await world.store.listTasks({ runId: run.id, name: "each", limit: 99 })).map(({ path }) => path)).toEqual([
        "0",
        "1",
        "2",
        "3",
      ])
      await finish(world)
      expect(await world.run(run.id)).toMatchObject({ status: "success", tasks: { success: 5, pending: 0 } })
    })

    it("over an empty second list leaves no instances", async () => {
      const world = await setup(open)
      const run = await fanned(world, 3, [])
      await retry(world, run, { from: "each" })
      const [gate] = await world.gate()
      await world.turn({ changes: [{ ...fence(gate!), kind: "gather", status: "success", output: { inline: [] } }] })
      expect(await world.statuses(run.id)).toEqual({ after: "pending" })
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 1, success: 0 })
    })

    it("that failed by itself, not through an instance, starts with the gate", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const [gate] = await world.gate()
      await world.turn({ changes: [{ ...fence(gate!), kind: "fail", error: "no list" }] })
      expect(await retry(world, run)).toBe(true)
      expect(await world.gate()).toMatchObject([{ kind: "fan", childrenCreated: 0 }])
    })

    it("of failed instances without any starts with the gate", async () => {
      const world = await setup(open)
      const run = await fanned(world, 2, [])
      const lanes = { lane: "g", instanceLane: WORK, upstreamPending: 0, upstream: { failed: 0, unmet: 0, waived: 0 } }
      expect(await world.store.retryRun(run.id, { rows: [{ node: 0, path: "", extent: "failed", ...lanes }] })).toBe(true)
      expect(await world.gate()).toMatchObject([{ kind: "fan", childrenCreated: 0, instanceCount: null }])
    })
  })
}
