// Running rows that wait without a slot: how they start to wait, what resumes them, and who claims them then.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import type { WaitingOn } from "../../../core/model/waiting-on.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { BEGIN, fence, names, type Open, setup, WORK, type World } from "../world.ts"

const APPROVAL: WaitingOn = { kind: "approval", message: "go?" }
const SLEEP: WaitingOn = { kind: "sleep", ms: 1000 }

type Waiting = Pick<TaskClaim, "row" | "attemptId"> & Partial<Pick<TaskClaim, "wait">>

const waits = (claim: Waiting, delayMs: number | null, what: WaitingOn = APPROVAL): Change => ({
  ...fence(claim),
  kind: "wait",
  waitingOn: what,
  delayMs,
  ...(claim.wait && { resumes: claim.wait.resumes }),
})

/** Starts a run whose first task waits, as the gate decided. */
const waiting = async (world: World, delayMs: number | null, flow = workflow({ a: { if: "true" }, b: { after: ["a"] } })) => {
  const run = await world.start(flow)
  const [gate] = await world.gate()
  await world.turn({ changes: [waits(gate!, delayMs)] })
  return { run, gate: gate! }
}

export const waitingTests = (open: Open): void => {
  describe("a row that waits", () => {
    it("from the gate is running with an attempt and without a holder", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      const { rejected, events } = await world.turn({ changes: [waits(gate!, null)] })
      expect(rejected).toEqual([])
      const waiting = { kind: "approval", message: "go?", until: null }
      expect(events).toEqual([
        { type: "task", runId: run.id, task: "a", path: "", attempt: 1, status: "running", at: iso(BEGIN), waiting },
      ])
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "running",
        attempt: 1,
        attemptId: gate!.attemptId,
        waitingOn: APPROVAL,
        resumeAt: null,
        dispatchedAt: iso(BEGIN),
        startedAt: iso(BEGIN),
      })
      expect(await world.store.listInFlight(world.holder)).toEqual([])
      expect((await world.run(run.id)).tasks).toMatchObject({ pending: 0, running: 1 })
    })

    it("from a running attempt frees its slots and keeps its attempt", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }, { concurrency: 1 }))
      const [a] = await world.claim()
      await world.turn({ changes: [{ ...fence(a!), kind: "started", at: BEGIN, externalId: "pid 7" }] })
      expect(await world.claim()).toEqual([])
      const { claims } = await world.turn({ changes: [waits(a!, null)], claim: 9 })
      expect(names(world, claims)).toEqual(["b"])
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "running",
        attempt: 1,
        externalId: "pid 7",
        waitingOn: APPROVAL,
      })
      const { rejected } = await world.turn({ changes: [world.ended(a!), world.ended(claims[0]!)] })
      expect(rejected).toEqual([])
      expect((await world.run(run.id)).status).toBe("success")
    })

    it("from an attempt without a reported start counts as started", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      const [a] = await world.claim()
      const { events } = await world.turn({ changes: [{ ...waits(a!, null), startedAt: BEGIN - 5 } as Change] })
      expect(events.at(-1)).toMatchObject({ status: "running", at: iso(BEGIN - 5), attempt: 1, waiting: { kind: "approval" } })
      expect(await world.task(run.id, "a")).toMatchObject({ startedAt: iso(BEGIN - 5) })
    })

    it("is claimed among the gates when it is due, not before", async () => {
      const world = await setup(open)
      const { gate } = await waiting(world, 1000)
      const early = await world.turn({ gate: 9 })
      expect({ gates: early.gateClaims, due: early.nextDueMs }).toEqual({ gates: [], due: 1000 })
      world.clock.pass(1000)
      const { gateClaims: gates, events } = await world.turn({ gate: 9 })
      expect(gates).toMatchObject([
        { row: gate.row, attemptId: gate.attemptId, attempt: 1, wait: { on: APPROVAL, elapsedMs: 1000 } },
      ])
      expect(events).toEqual([])
      expect(await world.gate()).toEqual([])
      expect(await world.store.listInFlight(world.holder)).toMatchObject([fence(gate)])
    })

    it("and new rows share the limit of the gate", async () => {
      const world = await setup(open)
      const gated = workflow({ a: { if: "true" }, b: { if: "true" }, c: { if: "true" }, d: { if: "true" } })
      await world.start(gated)
      const waitingRows = await world.gate()
      await world.turn({ changes: waitingRows.map((gate) => waits(gate, 1000, SLEEP)) })
      world.clock.pass(1000)
      await world.start(gated)
      const [first, second] = [await world.gate(4), await world.gate(4)]
      const isResumed = ({ wait }: TaskClaim): boolean => wait !== null
      expect(first.filter((claim) => !isResumed(claim)).length).toBeGreaterThanOrEqual(2)
      expect([...first, ...second].filter(isResumed).length).toBeGreaterThanOrEqual(2)
      expect(new Set([...first, ...second, ...(await world.gate(4))].map(({ row }) => row)).size).toBe(8)
    })

    it("is not due for an advance without a gate claim", async () => {
      const world = await setup(open)
      await waiting(world, 0)
      expect((await world.turn()).nextDueMs).toBeNull()
      expect(await world.gate()).toHaveLength(1)
    })

    it("is not due for an evicted holder", async () => {
      const world = await setup(open)
      await waiting(world, 0)
      const other = await world.join("other")
      await world.die(other)
      await world.store.reapHolders(99)
      expect(await world.turn({ holder: other, gate: 9 })).toMatchObject({ gateClaims: [], more: false, nextDueMs: null })
      expect(await world.gate()).toHaveLength(1)
    })

    it("may wait for something else under the same attempt", async () => {
      const world = await setup(open)
      const { run } = await waiting(world, 0)
      const [woken] = await world.gate()
      world.clock.pass(10)
      const { rejected, events } = await world.turn({ changes: [waits(woken!, 500, SLEEP)] })
      expect({ rejected, events }).toEqual({ rejected: [], events: [] })
      expect(await world.task(run.id, "a")).toMatchObject({ attempt: 1, waitingOn: SLEEP, resumeAt: iso(BEGIN + 510) })
      world.clock.pass(500)
      expect(await world.gate()).toMatchObject([{ attempt: 1, wait: { on: SLEEP, elapsedMs: 510 } }])
    })

    it("finishes by a result that comes with the repeated wait", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, null)
      const { rejected } = await world.turn({ changes: [waits(gate, null), world.ended(gate, "success", "yes")] })
      expect(rejected).toEqual([])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "success", attempt: 1, output: { inline: "yes" } })
    })

    it("keeps a claim when the wait before it is sent again", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, 0)
      const [first] = await world.gate()
      await world.turn({ changes: [waits(first!, 0, SLEEP)] })
      const [second] = await world.gate()
      expect(second!.wait).toMatchObject({ on: SLEEP, resumes: 2 })
      for (const wait of [waits(gate, null), waits(first!, null)])
        expect((await world.turn({ changes: [wait] })).rejected).toEqual([fence(gate)])
      expect(await world.store.listInFlight(world.holder)).toMatchObject([{ ...fence(gate), resumes: 2 }])
      expect((await world.task(run.id, "a")).waitingOn).toEqual(SLEEP)
      expect((await world.turn({ changes: [waits(second!, null)] })).rejected).toEqual([])
      expect(await world.store.listInFlight(world.holder)).toEqual([])
    })

    it("may be told twice to wait", async () => {
      const world = await setup(open)
      const { gate } = await waiting(world, 0)
      const [resumed] = await world.gate()
      for (const wait of [waits(resumed!, 1000), waits(resumed!, 1000)])
        expect((await world.turn({ changes: [wait] })).rejected).toEqual([])
      world.clock.pass(1000)
      expect(await world.gate()).toMatchObject([fence(gate)])
    })

    it("counts how often it was resumed in each attempt", async () => {
      const world = await setup(open)
      await waiting(world, 0)
      const [resumed] = await world.gate()
      await world.turn({ changes: [world.again(resumed!, 0)] })
      const [again] = await world.gate()
      expect((await world.turn({ changes: [waits(again!, 0)] })).rejected).toEqual([])
      expect(await world.gate()).toMatchObject([{ attempt: 2, wait: { resumes: 1 } }])
    })

    it("finishes and unblocks downstream tasks", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, null)
      const { claims } = await world.turn({ changes: [world.ended(gate, "success", "yes")], claim: 9 })
      expect(names(world, claims)).toEqual(["b"])
      expect(claims[0]!.reads.get(0)).toEqual({ status: "success", output: { inline: "yes" } })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "success",
        waitingOn: null,
        resumeAt: null,
        lastAttemptState: "success",
      })
    })

    it("is retried as a new attempt", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, 0)
      const [woken] = await world.gate()
      await world.turn({ changes: [world.again(woken!, 0)] })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "pending", attempt: 1, failures: 1, waitingOn: null })
      const [again] = await world.gate()
      expect(again!.attemptId).not.toBe(gate.attemptId)
      await world.turn({ changes: [waits(again!, null)] })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running", attempt: 2 })
      const row = (await world.task(run.id, "a")).row
      expect(await world.store.listAttempts(row)).toMatchObject([{ attempt: 1, attemptId: gate.attemptId, state: "failed" }])
    })

    it("can be read as a claim by its attempt id, for an external signal", async () => {
      const world = await setup(open)
      const { gate } = await waiting(world, null)
      world.clock.pass(7)
      expect(await world.store.readClaims([fence(gate)])).toMatchObject([
        { ...fence(gate), attempt: 1, wait: { on: APPROVAL, elapsedMs: 7 } },
      ])
    })

    it("rejects a wrong attempt id", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, null)
      const stranger = { ...gate, attemptId: "0198f000-0000-7000-8000-00000000dead" as TaskClaim["attemptId"] }
      const changes = [waits(stranger, null), world.ended(stranger)]
      expect((await world.turn({ changes })).rejected).toEqual([fence(stranger)])
      await world.turn({ changes: [world.ended(gate)] })
      expect((await world.turn({ changes: [waits(gate, null)] })).rejected).toEqual([fence(gate)])
      expect((await world.task(run.id, "a")).status).toBe("success")
    })

    it("of a private run is resumed only in the lane of that run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" } }), { private: true })
      const gateLanes = [`p:${run.id}:g`]
      const { gateClaims: gates } = await world.turn({ gate: 9, gateLanes })
      await world.turn({ changes: [waits(gates[0]!, 0)] })
      const shared = await world.turn({ gate: 9 })
      expect({ gates: shared.gateClaims, due: shared.nextDueMs }).toEqual({ gates: [], due: null })
      expect((await world.turn({ gate: 9, gateLanes })).gateClaims).toHaveLength(1)
    })

    it("waits again when its holder releases it", async () => {
      const world = await setup(open)
      const { run } = await waiting(world, 0)
      const [woken] = await world.gate()
      const { rejected } = await world.turn({ changes: [{ ...fence(woken!), kind: "release" }] })
      expect(rejected).toEqual([])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running", attempt: 1, attemptId: woken!.attemptId })
      expect(await world.gate()).toMatchObject([{ attemptId: woken!.attemptId }])
    })

    it("waits again when its holder dies and is not a lost attempt", async () => {
      const world = await setup(open)
      const { run } = await waiting(world, 0)
      const other = await world.join("other")
      const [woken] = (await world.turn({ holder: other, gate: 9 })).gateClaims
      await world.die(other)
      expect(await world.store.reapHolders(99)).toEqual([])
      expect(await world.gate()).toMatchObject([{ row: woken!.row, attemptId: woken!.attemptId, attempt: 1, losses: 0 }])
      expect((await world.task(run.id, "a")).status).toBe("running")
    })

    it("outlives the holder that started it", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" } }))
      const other = await world.join("other")
      const [gate] = (await world.turn({ holder: other, gate: 9 })).gateClaims
      await world.turn({ holder: other, changes: [waits(gate!, null)] })
      await world.die(other)
      expect(await world.store.reapHolders(99)).toEqual([])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "running", attemptId: gate!.attemptId })
    })

    it("is due immediately, and once, when its run is cancelled", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, null)
      await world.store.requestCancel(run.id, "cancel")
      const [woken] = await until(world)
      expect(woken).toMatchObject({ row: gate.row, run: { cancelling: "cancel" } })
      await world.turn({ changes: [waits(woken!, null)] })
      expect(await until(world)).toEqual([])
      await world.turn({ changes: [world.ended(gate, "cancelled")] })
      await until(world)
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", b: "cancelled" })
      expect((await world.run(run.id)).status).toBe("cancelled")
    })

    it("waits in a paused run until the run is resumed", async () => {
      const world = await setup(open)
      const { run } = await waiting(world, 100)
      await world.store.setPaused(run.id, true)
      world.clock.pass(100)
      const paused = await world.turn({ gate: 9 })
      expect({ gates: paused.gateClaims, due: (await world.turn({ gate: 9 })).nextDueMs }).toEqual({ gates: [], due: null })
      expect((await world.task(run.id, "a")).parked).toBe("paused")
      await world.store.setPaused(run.id, false)
      expect(await world.gate()).toHaveLength(1)
    })

    it("keeps its due time in a run that was paused and resumed in the meantime", async () => {
      const world = await setup(open)
      const { run } = await waiting(world, 1000)
      await world.store.setPaused(run.id, true)
      world.clock.pass(100)
      await world.turn({ gate: 9 })
      await world.store.setPaused(run.id, false)
      expect(await world.turn({ gate: 9 })).toMatchObject({ gateClaims: [], nextDueMs: 900 })
    })

    it("of a paused run is due when the run is cancelled", async () => {
      const world = await setup(open)
      const { run } = await waiting(world, 0)
      await world.store.setPaused(run.id, true)
      expect(await world.gate()).toEqual([])
      await world.store.requestCancel(run.id, "cancel")
      expect(await until(world)).toHaveLength(1)
    })

    it("keeps its run from being removed and is removed with it", async () => {
      const world = await setup(open)
      const { run, gate } = await waiting(world, 1000, workflow({ a: { if: "true" } }))
      await expect(world.store.removeRun(run.id, 99)).rejects.toThrow("has not ended")
      await world.turn({ changes: [world.ended(gate)] })
      expect(await world.store.removeRun(run.id, 99)).toBe(true)
      world.clock.pass(1000)
      expect(await world.turn({ gate: 9 })).toMatchObject({ gateClaims: [], nextDueMs: null })
    })
  })

  describe("a child run", () => {
    const family = async (world: World) => {
      const parent = await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      await world.turn({
        changes: [waits(gate!, null, { kind: "workflow", workflow: "child", runId: "0198f000-0000-7000-8000-0000000000cc" })],
      })
      const child = await world.start(workflow({ x: {} }, { name: "child" }), {
        trigger: "workflow",
        parent: { row: gate!.row, runId: parent.id, task: "a", rootRunId: null, depth: 1, withinSameWorkflow: false },
      })
      return { parent, gate: gate!, child }
    }

    it("knows its parent and its depth", async () => {
      const world = await setup(open)
      const { parent, child } = await family(world)
      expect(await world.run(child.id)).toMatchObject({ trigger: "workflow", parent: { runId: parent.id, task: "a" } })
      expect((await world.run(parent.id)).parent).toBeNull()
      expect((await world.claim())[0]!.run).toMatchObject({ depth: 1, rootRunId: null })
    })

    it("resumes the waiting task when it finishes", async () => {
      const world = await setup(open)
      const { gate } = await family(world)
      expect(await world.gate()).toEqual([])
      const [x] = await world.claim()
      const { gateClaims: gates } = await world.turn({ changes: [world.ended(x!)], gate: 9 })
      const woken = gates.length > 0 ? gates : await world.gate()
      expect(woken).toMatchObject([{ row: gate.row, wait: { on: { kind: "workflow" } } }])
    })

    it("is not removable until the task that waits for it has seen its end", async () => {
      const world = await setup(open)
      const parent = await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      const version = await world.deploy(workflow({ x: {} }, { name: "child" }))
      const family = { row: gate!.row, runId: parent.id, task: "a", rootRunId: null, depth: 1, withinSameWorkflow: false }
      const child = world.newRun(version, { trigger: "workflow", parent: family })
      await world.turn({ changes: [waits(gate!, null, { kind: "workflow", workflow: "child", runId: child.id })] })
      await world.store.createRuns([child])
      await world.turn({ changes: (await world.claim()).map((x) => world.ended(x)) })
      world.clock.pass(1000)
      const removable = async () => [
        await world.store.removableRuns({ olderThanMs: 500, limit: 9 }),
        await world.store.removableRuns({ keep: 0, limit: 9 }),
      ]
      expect(await removable()).toEqual([[], []])
      await world.turn({ changes: (await world.gate()).map((a) => world.ended(a)) })
      expect(await removable()).toEqual([[child.id], [child.id, parent.id]])
    })

    it("that finishes while its parent is claimed resumes it again", async () => {
      const world = await setup(open)
      const { gate, parent } = await family(world)
      await world.store.requestCancel(parent.id, "cancel")
      const [held] = await until(world)
      const [x] = await world.claim()
      await world.turn({ changes: [world.ended(x!)] })
      expect(await world.gate()).toEqual([])
      await world.turn({ changes: [waits(held!, null)] })
      expect(await world.gate()).toMatchObject([{ row: gate.row }])
    })

    it("of a private run uses the lanes of the root run", async () => {
      const world = await setup(open)
      const parent = await world.start(workflow({ a: { if: "true" } }), { private: true })
      const lanes = { lanes: [`p:${parent.id}:w`], gateLanes: [`p:${parent.id}:g`] }
      const [gate] = (await world.turn({ gate: 9, ...lanes })).gateClaims
      const child = await world.start(workflow({ x: {}, y: { if: "true" }, z: { after: ["x"] } }, { name: "child" }), {
        private: true,
        parent: { row: gate!.row, runId: parent.id, task: "a", rootRunId: parent.id, depth: 1, withinSameWorkflow: false },
      })
      const { claims, gateClaims: gates } = await world.turn({ claim: 9, gate: 9, ...lanes })
      expect([...claims, ...gates].map(({ runId }) => runId)).toEqual([child.id, child.id])
      const failed = await world.turn({ changes: [world.ended(claims[0]!, "failed")], gate: 9, ...lanes })
      expect(names(world, failed.gateClaims)).toEqual(["z"])
    })
  })

  describe("a waiting row that its holder keeps", () => {
    const CONDITION: WaitingOn = { kind: "condition", condition: "/data/in.csv", everyMs: 10_000 }

    const kept = async (world: World) => {
      const run = await world.start(workflow({ a: { if: "true" } }))
      const [gate] = await world.gate()
      await world.turn({ changes: [waits(gate!, 0, CONDITION)] })
      const [held] = await world.gate()
      return { run, held: held! }
    }

    it("is given to nobody else, counts as running, and uses none of the holder's capacity", async () => {
      const world = await setup(open)
      const { run, held } = await kept(world)
      world.clock.pass(3_600_000)
      expect(await world.gate()).toEqual([])
      expect(await world.store.listInFlight(world.holder)).toMatchObject([{ row: held.row }])
      expect((await world.store.listHolders()).map(({ inFlight }) => inFlight)).toEqual([0])
      expect((await world.run(run.id)).tasks).toMatchObject({ running: 1, pending: 0 })
    })

    it("reports progress and finishes under its attempt", async () => {
      const world = await setup(open)
      const { run, held } = await kept(world)
      await world.turn({ changes: [{ ...fence(held), kind: "progress", fraction: null, details: "it does not exist" }] })
      expect(await world.task(run.id, "a")).toMatchObject({ waitingOn: CONDITION, progress: { details: "it does not exist" } })
      const { rejected } = await world.turn({ changes: [world.ended(held)] })
      expect(rejected).toEqual([])
      expect(await world.task(run.id, "a")).toMatchObject({ status: "success", attempt: 1, waitingOn: null })
    })

    it("is reported while its run is being cancelled, and must end after it is released", async () => {
      const world = await setup(open)
      const { run, held } = await kept(world)
      await world.store.requestCancel(run.id, "cancel")
      expect((await world.turn()).cancelling).toMatchObject([{ runSeq: run.seq }])
      await world.turn({ changes: [{ ...fence(held), kind: "release" }] })
      expect(await world.gate()).toMatchObject([{ row: held.row, wait: { mustEnd: true } }])
    })

    it("is due for another holder when its holder is deregistered", async () => {
      const world = await setup(open)
      const { held } = await kept(world)
      await world.store.deregisterHolder(world.holder)
      await world.store.reapHolders(9, { workers: true })
      const other = await world.join("other")
      expect((await world.turn({ holder: other, gate: 9 })).gateClaims).toMatchObject([
        { row: held.row, attemptId: held.attemptId },
      ])
    })
  })

  describe("the secret of a store", () => {
    it("is created once and long enough", async () => {
      const world = await setup(open)
      const secret = await world.store.getSecret()
      expect(secret).toMatch(/^[0-9a-f]{64}$/)
      expect(await world.store.getSecret()).toBe(secret)
    })
  })

  describe("progress", () => {
    it("of a running attempt is stored and emitted, latest value only", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }))
      const [a] = await world.claim()
      const far = (fraction: number): Change => ({ ...fence(a!), kind: "progress", fraction, details: { step: 2 } })
      const { rejected, events } = await world.turn({ changes: [far(0.4)] })
      expect(rejected).toEqual([])
      expect(events).toMatchObject([{ task: "a", status: "dispatched", progress: { fraction: 0.4, details: { step: 2 } } }])
      expect((await world.task(run.id, "a")).progress).toEqual({ fraction: 0.4, details: { step: 2 } })
      await world.turn({ changes: [world.ended(a!)] })
      expect((await world.turn({ changes: [far(0.5)] })).rejected).toEqual([fence(a!)])
    })
  })
}

/** Advances until nothing is left to do; returns the gate claims. */
const until = async (world: World): Promise<TaskClaim[]> => {
  const gates: TaskClaim[] = []
  for (let turns = 0; turns < 10; turns++) {
    const advanced = await world.turn({ gate: 9, lanes: [WORK] })
    gates.push(...advanced.gateClaims)
    if (!advanced.more) break
  }
  return gates
}
