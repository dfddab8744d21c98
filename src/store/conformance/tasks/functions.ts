// Durable functions: recorded steps, signals, and rows that return to their lane when they are resumed.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { CANCEL_SIGNAL } from "../../../core/model/function-signals.ts"
import { iso } from "../../../core/model/ports.ts"
import { planRetry } from "../../../core/rules/runs/retry-plan.ts"
import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { workflow } from "../../../core/testing.ts"
import type { NewStep } from "../../contract/functions.ts"
import { JOB_DEFAULTS, type NewJob } from "../../contract/jobs.ts"
import type { ServerStore } from "../../contract/server-store.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { BEGIN, fence, type Open, setup, type World } from "../world.ts"

const step = ({ row, attemptId }: TaskClaim, given: Partial<NewStep> = {}): NewStep => ({
  row,
  attemptId,
  name: "charge",
  occurrence: 0,
  position: 0,
  kind: "run",
  state: "success",
  failures: 0,
  output: { inline: { cents: 100 } },
  error: null,
  details: null,
  startedAt: iso(BEGIN),
  finishedAt: iso(BEGIN),
  ...given,
})

const JOB: NewJob = {
  ...JOB_DEFAULTS,
  id: "",
  name: "send",
  queue: "default",
  payload: null,
  priority: 5,
  dependencies: [],
  retryPolicy: DEFAULT_JOB_RETRY,
  task: null,
}

const suspends = (claim: TaskClaim, delayMs: number | null, seenRequests = 0): Change => ({
  ...fence(claim),
  kind: "wait",
  waitingOn: { kind: "resume", message: "waits for paid" },
  delayMs,
  seenRequests,
})

const started = async (world: World<ServerStore>) => {
  const run = await world.start(workflow({ main: {} }))
  const [claim] = await world.claim()
  return { run, claim: claim! }
}

/** Lets the gate return resumed rows to their lane, and returns what is claimed then. */
const resumed = async (world: World<ServerStore>): Promise<TaskClaim[]> => {
  const gates = await world.gate()
  await world.turn({ changes: gates.map((gate) => ({ ...fence(gate), kind: "requeue" })) })
  return await world.claim()
}

export const functionTests = (open: Open<ServerStore>): void => {
  describe("a durable function", () => {
    it("that is resumed keeps the time of its first start", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.turn({ changes: [{ ...fence(claim), kind: "started", at: world.clock.now() }] })
      const { startedAt } = await world.task(run.id, "main")
      await world.turn({ changes: [suspends(claim, 1000)] })
      world.clock.pass(1000)
      const [again] = await resumed(world)
      await world.turn({ changes: [{ ...fence(again!), kind: "started", at: world.clock.now() }] })
      await world.turn({ changes: [world.ended(again!)] })
      expect(await world.task(run.id, "main")).toMatchObject({ status: "success", attempt: 1, startedAt })
    })

    it("is not suspended while its run is being cancelled: it runs again, and learns of the cancel", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.store.requestCancel(run.id, "cancel")
      const { rejected } = await world.turn({ changes: [suspends(claim, null)] })
      expect(rejected).toEqual([fence(claim)])
      expect(await world.store.readClaims([fence(claim)])).toMatchObject([{ wait: null, run: { cancelling: "cancel" } }])
    })

    it("can be cancelled only while it runs", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.turn({ changes: [suspends(claim, null)] })
      const cancel = (): Promise<boolean> => world.store.requestCancel(run.id, "cancel", { inFlight: true })
      expect(await cancel()).toBe(false)
      await world.store.sendSignal({ runId: run.id, name: CANCEL_SIGNAL, payload: null, key: null })
      const gates = await world.gate()
      await world.turn({ changes: gates.map((gate) => ({ ...fence(gate), kind: "requeue" })) })
      expect(await cancel()).toBe(false)
      expect(await world.claim()).toHaveLength(1)
      expect(await cancel()).toBe(true)
      expect(await world.store.getRun(run.id)).toMatchObject({ status: "running" })
    })

    it("reads the steps that it has recorded, the latest record of each", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      const waiting = step(claim, { state: "waiting", output: null, finishedAt: null, failures: 1, details: { until: 5 } })
      expect(await world.store.recordSteps([waiting, step(claim, { name: "ship", output: { key: "k", bytes: 9 } })])).toEqual(
        [],
      )
      expect(await world.store.recordSteps([step(claim, { failures: 1 })])).toEqual([])
      const state = (await world.store.loadFunctions([claim.row])).get(claim.row)!
      expect(state.steps).toMatchObject([
        { name: "charge", occurrence: 0, state: "success", failures: 1, output: { inline: { cents: 100 } }, details: null },
        { name: "ship", output: { key: "k", bytes: 9 } },
      ])
      expect(await world.store.listSteps(run.id)).toEqual(state.steps)
    })

    it("lists its steps in the order in which they began, also within a millisecond", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.store.recordSteps([
        step(claim, { name: "a", position: 2 }),
        step(claim, { name: "b", position: 1 }),
        step(claim, { name: "c", position: 0, startedAt: iso(BEGIN + 1) }),
      ])
      expect((await world.store.listSteps(run.id)).map(({ name, position }) => [name, position])).toEqual([
        ["c", 0],
        ["b", 1],
        ["a", 2],
      ])
    })

    it("forgets its failed steps and those of the plan when it is retried", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.store.recordSteps([
        step(claim, { name: "a" }),
        step(claim, { name: "b", position: 1 }),
        step(claim, { name: "b", occurrence: 1, position: 2 }),
        step(claim, { name: "c", position: 3, state: "failed" }),
      ])
      await world.turn({ changes: [world.ended(claim)] })
      const plan = planRetry(workflow({ main: {} }), run, await world.store.listRowStates(run.id), {
        from: "main",
        steps: [{ name: "b", occurrence: 1 }],
      })
      if ("problem" in plan) throw new Error(plan.problem)
      expect(await world.store.retryRun(run.id, plan.reset)).toBe(true)
      expect((await world.store.listSteps(run.id)).map(({ name, occurrence }) => [name, occurrence])).toEqual([
        ["a", 0],
        ["b", 0],
      ])
    })

    it("forgets that it was asked to end when it is retried, and keeps other signals", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      for (const name of [CANCEL_SIGNAL, "paid"])
        await world.store.sendSignal({ runId: run.id, name, payload: null, key: "once" })
      await world.turn({ changes: [world.ended(claim)] })
      const plan = planRetry(workflow({ main: {} }), run, await world.store.listRowStates(run.id), { from: "main" })
      if ("problem" in plan) throw new Error(plan.problem)
      await world.store.retryRun(run.id, plan.reset)
      const { signals } = (await world.store.loadFunctions([claim.row])).get(claim.row)!
      expect(signals.map(({ name }) => name)).toEqual(["paid"])
    })

    it("that was cancelled while it was being resumed suspends as usual after a retry", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.turn({ changes: [suspends(claim, 1000)] })
      world.clock.pass(1000)
      const [gate] = await world.gate()
      await world.store.requestCancel(run.id, "cancel")
      await world.turn({ changes: [] })
      await world.turn({ changes: [{ ...fence(gate!), kind: "requeue" }] })
      await world.turn({ changes: [] })
      expect(await world.store.getRun(run.id)).toMatchObject({ status: "cancelled" })
      const plan = planRetry(workflow({ main: {} }), run, await world.store.listRowStates(run.id), { from: "main" })
      if ("problem" in plan) throw new Error(plan.problem)
      expect(await world.store.retryRun(run.id, plan.reset)).toBe(true)
      const [again] = await world.claim()
      await world.turn({ changes: [suspends(again!, 1000)] })
      world.clock.pass(1000)
      const [due] = await world.gate()
      expect(due!.wait!.mustEnd).toBeUndefined()
    })

    it("records nothing once another attempt has its row", async () => {
      const world = await setup(open)
      const { claim } = await started(world)
      const lost: Change = {
        ...fence(claim),
        kind: "retry",
        delayMs: 0,
        lost: true,
        result: { state: "lost", startedAt: null, finishedAt: BEGIN },
      }
      await world.turn({ changes: [lost] })
      expect(await world.store.recordSteps([step(claim)])).toEqual([claim.attemptId])
      expect((await world.store.loadFunctions([claim.row])).get(claim.row)!.steps).toEqual([])
    })

    it("is claimed again under the same attempt number when its time has come", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.turn({ changes: [suspends(claim, 60_000)] })
      expect(await world.task(run.id, "main")).toMatchObject({ status: "running", resumeAt: iso(BEGIN + 60_000) })
      expect(await world.gate()).toEqual([])
      world.clock.pass(60_000)
      const [again] = await resumed(world)
      expect(again).toMatchObject({ row: claim.row, attempt: 1 })
      expect(again!.attemptId).not.toBe(claim.attemptId)
      const { rejected } = await world.turn({ changes: [world.ended(again!)] })
      expect(rejected).toEqual([])
      expect((await world.run(run.id)).status).toBe("success")
      expect(await world.store.listAttempts(claim.row)).toEqual([])
    })

    it("is resumed by a signal, and reads it", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.turn({ changes: [suspends(claim, null)] })
      const paid = { runId: run.id, name: "paid", payload: { cents: 5 }, key: null }
      expect(await world.store.sendSignal(paid)).toBe("sent")
      const [again] = await resumed(world)
      expect(again!.row).toBe(claim.row)
      const { signals, resumeRequests } = (await world.store.loadFunctions([claim.row])).get(claim.row)!
      expect(signals).toMatchObject([{ name: "paid", payload: { cents: 5 } }])
      expect(resumeRequests).toBe(1)
    })

    it("is due at once when a signal arrived that it has not seen before it is suspended", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.store.sendSignal({ runId: run.id, name: "paid", payload: null, key: null })
      await world.turn({ changes: [suspends(claim, null, 0)] })
      const [again] = await resumed(world)
      await world.turn({ changes: [suspends(again!, null, 1)] })
      expect(await world.gate()).toEqual([])
    })

    it("gets a signal with a key once, and none after its end", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      const paid = { runId: run.id, name: "paid", payload: 1, key: "payment 7" }
      expect(await world.store.sendSignal(paid)).toBe("sent")
      expect(await world.store.sendSignal(paid)).toBe("repeated")
      expect(await world.store.sendSignal({ ...paid, name: "refunded" })).toBe("sent")
      await world.turn({ changes: [world.ended(claim)] })
      expect(await world.store.sendSignal({ ...paid, key: null })).toBe("ended")
      expect(await world.store.sendSignal({ ...paid, runId: world.newRun({ workflowId: 1, versionId: 1 } as never).id })).toBe(
        "unknown",
      )
    })

    it("ends when its run is cancelled while it is suspended", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.turn({ changes: [suspends(claim, null)] })
      await world.store.requestCancel(run.id, "cancel")
      await world.turn()
      const [gate] = await world.gate()
      expect(gate!.wait).toMatchObject({ mustEnd: true })
      const result = { state: "cancelled", startedAt: null, finishedAt: BEGIN } as const
      await world.turn({ changes: [{ ...fence(gate!), kind: "finish", status: "cancelled", result }] })
      expect((await world.run(run.id)).status).toBe("cancelled")
    })

    it("is resumed by the end of a job that it has called, which can be removed then", async () => {
      const world = await setup(open)
      const { claim } = await started(world)
      const job = { ...JOB, id: "01890a5d-ac96-774b-bcce-b302099a8057", callerRow: claim.row }
      await world.store.createJobs([job])
      await world.turn({ changes: [suspends(claim, null)] })
      expect(await world.gate()).toEqual([])
      await world.store.cancelJob(job.id)
      const [again] = await resumed(world)
      expect(again!.row).toBe(claim.row)
      expect(await world.store.deleteJob(job.id)).toBeNull()
    })

    it("records with the creation of a child that its step has created it", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      const job: NewJob = { ...JOB, id: "01890a5d-ac96-774b-bcce-b302099a8057" }
      const child = world.newRun(await world.deploy(workflow({ a: {} }, { name: "child" })))
      const calls = { kind: "call", state: "waiting", output: null, finishedAt: null } as const
      const details = [
        { kind: "task", id: job.id },
        { kind: "workflow", id: child.id },
      ]
      await world.store.recordSteps(
        details.map((each, i) => step(claim, { ...calls, occurrence: i, position: i, details: each })),
      )
      const stored = async () => (await world.store.listSteps(run.id)).map((each) => each.details)
      expect(await stored()).toEqual(details)
      await world.store.createJobs([{ ...job, callerRow: claim.row, callerStep: { name: "charge", occurrence: 0 } }])
      expect(await stored()).toEqual([{ ...details[0], made: true }, details[1]])
      const parent = { row: claim.row, runId: run.id, task: "main", rootRunId: null, depth: 1, withinSameWorkflow: true }
      await world.store.createRuns([{ ...child, parent: { ...parent, step: { name: "charge", occurrence: 1 } } }])
      expect(await stored()).toEqual(details.map((each) => ({ ...each, made: true })))
    })

    it("loses its steps and signals with its run", async () => {
      const world = await setup(open)
      const { run, claim } = await started(world)
      await world.store.recordSteps([step(claim)])
      await world.turn({ changes: [world.ended(claim)] })
      while (!(await world.store.removeRun(run.id, 100))) continue
      expect((await world.store.loadFunctions([claim.row])).get(claim.row)?.steps ?? []).toEqual([])
    })
  })
}
