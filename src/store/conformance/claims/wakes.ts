// Commits that wake the stores of other processes on the same database: one test for each kind of work that a commit leaves to them. A
// commit that creates rows is tested together with a turn that claims them all, so that only the other work is left.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { FUNCTION_EXECUTOR } from "../../../core/model/function.ts"
import { group, workflow } from "../../../core/testing.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { evaluateAll } from "../groups/groups.ts"
import { create, newJob } from "../jobs/jobs.ts"
import { retry } from "../runs/retry-run.ts"
import { fence, GATE, type Open, setup, WORK, type World } from "../world.ts"

type Act = () => Promise<unknown>

const MINUTE = 60_000
const one = workflow({ a: {} })
const limits = [{ key: "k:shared", cap: 1 }]

/** Starts a run of one task, and claims the task. */
const startAndClaim = async (world: World<ServerStore>, flow = one): Promise<TaskClaim> => {
  await world.start(flow)
  return (await world.claim())[0]!
}

const claimedJob = async (world: World<ServerStore>) => {
  const [job] = await create(world, {})
  return { job: job!, claim: (await world.claimJobs())[0]! }
}

/** Suspends a durable function, and returns its row as the gate claims it after a signal. */
const resumedFunction = async (world: World<ServerStore>): Promise<TaskClaim> => {
  const claim = await startAndClaim(world)
  await world.turn({ changes: [{ ...fence(claim), kind: "wait", waitingOn: { kind: "resume", message: "" }, delayMs: null }] })
  await world.store.sendSignal({ runId: claim.runId, name: "paid", payload: null, key: null })
  return (await world.gate())[0]!
}

const enqueue = (gate: TaskClaim, lane: string): Change => ({ ...fence(gate), kind: "enqueue", lane, limits })

/** Kinds of work that a commit leaves, each with a function that prepares the commit. */
const REASONS: [work: string, prepare: (world: World<ServerStore>) => Promise<Act>][] = [
  ["a deployed workflow", async (world) => () => world.deploy(one)],
  [
    "a removed workflow",
    async (world) => {
      await world.deploy(one)
      return () => world.store.removeWorkflow(one.name)
    },
  ],
  [
    "a paused workflow",
    async (world) => {
      await world.deploy(one)
      return () => world.store.setWorkflowPaused({ name: one.name, paused: true, nextAt: [] })
    },
  ],
  ["changed settings of a queue", async (world) => () => world.store.putQueue("media", { paused: true })],
  [
    "a new run",
    async (world) => {
      const version = await world.deploy(one)
      return () => world.store.createRuns([world.newRun(version)])
    },
  ],
  ["a new job", async (world) => () => create(world, {})],
  [
    "a run with a timeout",
    async (world) => {
      const version = await world.deploy(workflow({ a: {} }, { timeoutMs: MINUTE }))
      return () => Promise.all([world.store.createRuns([world.newRun(version)]), world.turn({ claim: 9 })])
    },
  ],
  [
    "a cancelled run",
    async (world) => {
      const { runId } = await startAndClaim(world)
      return () => world.store.requestCancel(runId, "cancel")
    },
  ],
  [
    "a paused run",
    async (world) => {
      const { runId } = await startAndClaim(world)
      return () => world.store.setPaused(runId, true)
    },
  ],
  [
    "a retried run",
    async (world) => {
      const claim = await startAndClaim(world)
      await world.turn({ changes: [world.ended(claim, "failed")] })
      const run = await world.run(claim.runId)
      return () => retry(world, run)
    },
  ],
  [
    "an overridden outcome",
    async (world) => {
      const run = await world.start(one)
      return () => world.store.overrideOutcome({ runId: run.id, name: "a", path: "", status: "success", reason: "by hand" })
    },
  ],
  [
    "a job with a delay",
    async (world) => () =>
      Promise.all([world.store.createJobs([newJob(world, { delayMs: MINUTE })]), world.turn({ claim: 9 })]),
  ],
  [
    "a job that replaces another",
    async (world) => {
      await create(world, { key: "k" })
      const job = newJob(world, { key: "k" })
      return () => Promise.all([world.store.createJobs([job], { onConflict: "replace" }), world.turn({ claim: 9 })])
    },
  ],
  [
    "an edited job",
    async (world) => {
      const { job } = await claimedJob(world)
      return () => world.store.editJob(job.id, { priority: 9 })
    },
  ],
  [
    "a retried job",
    async (world) => {
      const { job, claim } = await claimedJob(world)
      await world.turn({ changes: [world.ended(claim, "failed")] })
      return () => world.store.retryJob(job.id)
    },
  ],
  [
    "an attempt to stop",
    async (world) => {
      const { job } = await claimedJob(world)
      return () => world.store.cancelJob(job.id)
    },
  ],
  [
    "a signal",
    async (world) => {
      const { runId } = await startAndClaim(world)
      return () => world.store.sendSignal({ runId, name: "paid", payload: null, key: null })
    },
  ],
  [
    "a function that is requeued",
    async (world) => {
      const gate = await resumedFunction(world)
      return () => world.turn({ changes: [{ ...fence(gate), kind: "requeue" }] })
    },
  ],
  [
    "an unblocked call of a function",
    async (world) => {
      const call = { executor: FUNCTION_EXECUTOR, function: "resize", after: ["a"] }
      const claim = await startAndClaim(world, workflow({ a: {}, b: call }))
      return () => world.turn({ changes: [world.ended(claim)], claim: 9 })
    },
  ],
  [
    "a task with labels that the gate enqueues",
    async (world) => {
      await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      return () => world.turn({ changes: [enqueue(gate!, "f:default||gpu")], claim: 9 })
    },
  ],
  [
    "a slot for a task of another run",
    async (world) => {
      const flow = workflow({ a: { if: "true" } })
      await world.start(flow)
      await world.start(flow)
      const gates = await world.gate()
      const { claims } = await world.turn({ changes: gates.map((gate) => enqueue(gate, WORK)), claim: 9 })
      expect(claims).toHaveLength(1)
      return () => world.turn({ changes: [world.ended(claims[0]!)] })
    },
  ],
  [
    "a slot for a pending run",
    async (world) => {
      const flow = workflow({ a: {} }, { maxActiveRuns: 1 })
      const claim = await startAndClaim(world, flow)
      await world.start(flow)
      return () => world.turn({ changes: [world.ended(claim)] })
    },
  ],
  [
    "a row of a private run",
    async (world) => {
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] } }), { private: true })
      const { claims } = await world.turn({ claim: 9, lanes: [`p:${run.id}:w`] })
      return () => world.turn({ changes: claims.map((claim) => world.ended(claim)), gateLanes: [GATE] })
    },
  ],
  [
    "a group that is past its timeout",
    async (world) => {
      const flow = workflow({ g: { ...group, timeoutMs: MINUTE }, "g.a": {} })
      await world.start(flow)
      await evaluateAll(world, flow)
      world.clock.pass(MINUTE)
      return () => world.turn()
    },
  ],
  [
    "a row of a dead holder that waits for the gate",
    async (world) => {
      await world.start(workflow({ a: { if: "true" } }))
      const other = await world.join("other")
      await world.turn({ holder: other, gate: 9 })
      await world.die(other)
      return () => world.store.reapHolders(9)
    },
  ],
]

export const wakeTests = (open: Open<ServerStore>): void => {
  describe("a commit wakes other processes", () => {
    it.each(REASONS)("when it leaves %s", async (_, prepare) => {
      const world = await setup(open)
      const act = await prepare(world)
      const before = await world.wakes()
      await act()
      expect(await world.wakes()).toBeGreaterThan(before)
    })

    it("only when it leaves something", async () => {
      const world = await setup(open)
      const claim = await startAndClaim(world, workflow({ a: {}, b: { after: ["a"] } }))
      const before = await world.wakes()
      await world.join("other")
      const { claims } = await world.turn({ changes: [world.ended(claim)], claim: 9 })
      await world.turn({ changes: [world.ended(claims[0]!)] })
      await world.turn({ claim: 9, gate: 9 })
      expect(await world.wakes()).toBe(before)
    })
  })
}
