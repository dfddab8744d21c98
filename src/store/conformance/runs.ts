// Making, pausing, cancelling and ending runs.

import { describe, expect, it } from "vitest"
import type { Change } from "../../core/change.ts"
import { iso } from "../../core/ports.ts"
import { workflow } from "../../core/testing.ts"
import { BEGIN, expandAll, fence, names, type Open, setup } from "./world.ts"

const one = workflow({ a: {} })
const tasks = (count: number, input = {}) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, input]))
const fan = { foreach: { lit: [] }, reference: "items" }

export const runTests = (open: Open): void => {
  describe("a new run", () => {
    it("is running with its rows", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] }, each: { fan } }, { priority: 8 }), {
        params: { x: 1 },
      })
      expect(run).toMatchObject({
        workflow: "test",
        version: 1,
        status: "running",
        paused: false,
        cancelling: null,
        trigger: "manual",
        params: { x: 1 },
        priority: 8,
        createdAt: iso(BEGIN),
        startedAt: iso(BEGIN),
        finishedAt: null,
        error: null,
        private: false,
        workingDir: null,
        hooksLeft: 0,
        tasks: { pending: 2, dispatched: 0, running: 0, success: 0, failed: 0, skipped: 0, cancelled: 0 },
      })
      expect(await world.run(run.id)).toEqual(run)
      expect(await world.store.listNodes(run.id)).toMatchObject([
        { node: 0, kind: "task", status: "pending", skip: null, expanded: 0 },
        { node: 1, kind: "task" },
        { node: 2, kind: "fan" },
      ])
    })

    it("with the same key of the same workflow is the first one again", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const other = await world.deploy({ ...one, name: "other" })
      const [first, second] = await world.store.createRuns([
        world.newRun(version, { idempotencyKey: "k" }),
        world.newRun(version, { idempotencyKey: "k" }),
      ])
      expect([first!.created, second!.created]).toEqual([true, false])
      expect(second!.run).toEqual(first!.run)
      const [third] = await world.store.createRuns([world.newRun(version, { idempotencyKey: "k" })])
      expect(third).toEqual({ run: first!.run, created: false })
      const more = await world.store.createRuns([
        world.newRun(other, { idempotencyKey: "k" }),
        world.newRun(version),
        world.newRun(version),
      ])
      expect(more.map(({ created }) => created)).toEqual([true, true, true])
      expect(await world.claim()).toHaveLength(4)
    })

    it("of an unknown version is refused, and nothing of its batch is made", async () => {
      const world = await setup(open)
      const version = await world.deploy(one)
      const batch = [world.newRun(version), world.newRun({ ...version, versionId: 999 })]
      await expect(world.store.createRuns(batch)).rejects.toThrow("999")
      expect(await world.store.listRuns({ limit: 9 })).toEqual([])
    })
  })

  describe("max_active_runs", () => {
    const flow = workflow({ a: {} }, { maxActiveRuns: 2, timeoutMs: 60_000 })

    it("keeps more runs pending without rows, and starts the oldest when one ends", async () => {
      const world = await setup(open)
      const version = await world.deploy(flow)
      const made = await world.store.createRuns(Array.from({ length: 5 }, () => world.newRun(version)))
      const runs = made.map(({ run }) => run)
      expect(runs.map(({ status }) => status)).toEqual(["running", "running", "pending", "pending", "pending"])
      expect(runs[2]).toMatchObject({ startedAt: null, tasks: { pending: 0 } })
      const [a] = await world.claim()
      world.clock.pass(1000)
      const { claims, events } = await world.turn({ changes: [world.ended(a!)], claim: 9 })
      expect(claims.map(({ runId }) => runId)).toEqual([runs[2]!.id])
      expect(events.filter(({ type }) => type === "run").map(({ runId, status }) => [runId, status])).toEqual([
        [runs[0]!.id, "success"],
        [runs[2]!.id, "running"],
      ])
      expect(await world.run(runs[2]!.id)).toMatchObject({ status: "running", startedAt: iso(BEGIN + 1000) })
      expect((await world.run(runs[3]!.id)).status).toBe("pending")
    })

    it("counts runs of that workflow only", async () => {
      const world = await setup(open)
      await world.start(flow)
      await world.start(flow)
      expect((await world.start({ ...flow, name: "other" })).status).toBe("running")
      expect((await world.start(flow)).status).toBe("pending")
    })

    it("begins the timeout of a run when it starts", async () => {
      const world = await setup(open)
      const version = await world.deploy({ ...flow, maxActiveRuns: 1 })
      const [first, second] = await world.store.createRuns([world.newRun(version), world.newRun(version)])
      const [a] = await world.claim()
      world.clock.pass(50_000)
      await world.turn({ changes: [world.ended(a!)] })
      world.clock.pass(50_000)
      await world.turn()
      expect((await world.run(first!.run.id)).status).toBe("success")
      expect(await world.run(second!.run.id)).toMatchObject({ status: "running", cancelling: null })
      world.clock.pass(10_000)
      expect((await world.turn()).closed).toMatchObject([{ runId: second!.run.id, status: "failed" }])
    })

    it("ends a pending run that is cancelled at once", async () => {
      const world = await setup(open)
      const version = await world.deploy({ ...flow, maxActiveRuns: 1 })
      const made = await world.store.createRuns([world.newRun(version), world.newRun(version), world.newRun(version)])
      const [, second, third] = made.map(({ run }) => run.id)
      expect(await world.store.requestCancel(second!, "cancel")).toBe(true)
      expect((await world.turn()).closed).toMatchObject([{ runId: second, status: "cancelled" }])
      expect(await world.run(second!)).toMatchObject({ status: "cancelled", startedAt: null, finishedAt: iso(BEGIN) })
      expect((await world.run(third!)).status).toBe("pending")
    })
  })

  describe("pause", () => {
    it("keeps what is ready from being taken, and resume gives it back", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { if: "true" }, c: { after: ["a"] } }))
      const [a] = await world.claim()
      expect(await world.store.setPaused(run.id, true)).toBe(true)
      expect((await world.run(run.id)).paused).toBe(true)
      const { claims, gates, refused } = await world.turn({ changes: [world.ended(a!)], claim: 9, gate: 9 })
      expect({ claims, gates, refused }).toEqual({ claims: [], gates: [], refused: [] })
      expect((await world.task(run.id, "c")).parked).toBe("paused")
      expect(await world.store.setPaused(run.id, false)).toBe(true)
      const resumed = await world.turn({ claim: 9, gate: 9 })
      expect(names(world, [...resumed.claims, ...resumed.gates])).toEqual(["c", "b"])
      expect((await world.run(run.id)).paused).toBe(false)
    })

    it("of one run leaves the others alone", async () => {
      const world = await setup(open)
      const first = await world.start(one)
      const second = await world.start(one)
      await world.store.setPaused(first.id, true)
      expect((await world.claim()).map(({ runId }) => runId)).toEqual([second.id])
    })

    it("of an ended or unknown run is refused", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      expect(await world.store.setPaused(run.id, true)).toBe(false)
      expect(await world.store.setPaused(world.newRun(await world.deploy(one)).id, true)).toBe(false)
    })

    it("does not keep the hooks of a run that ended meanwhile", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, "on_exit.0": {} }))
      const [a] = await world.claim()
      await world.store.setPaused(run.id, true)
      expect(names(world, (await world.turn({ changes: [world.ended(a!)], claim: 9 })).claims)).toEqual(["on_exit.0"])
    })
  })

  describe("cancel", () => {
    it("ends what is pending at once and leaves live attempts to their holder", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {}, c: { after: ["a"] }, d: { after: ["c"], rule: "all_done" } }))
      const [a] = await world.claim(1)
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(true)
      expect((await world.run(run.id)).cancelling).toBe("cancel")
      const turn = await world.turn({ claim: 9, gate: 9 })
      expect(turn).toMatchObject({
        claims: [],
        gates: [],
        closed: [],
        more: false,
        cancelling: [{ runSeq: run.seq, reason: "cancel" }],
      })
      expect(turn.events.map(({ task, status }) => [task, status])).toEqual([
        ["b", "cancelled"],
        ["c", "cancelled"],
        ["d", "cancelled"],
      ])
      expect(await world.statuses(run.id)).toEqual({ a: "dispatched", b: "cancelled", c: "cancelled", d: "cancelled" })
      const end = await world.turn({ changes: [world.ended(a!, "cancelled")] })
      expect(end).toMatchObject({ cancelling: [], closed: [{ runId: run.id, status: "cancelled" }] })
      expect(await world.run(run.id)).toMatchObject({
        status: "cancelled",
        cancelling: null,
        tasks: { cancelled: 4, pending: 0, dispatched: 0 },
      })
    })

    it("keeps a success that came before the kill", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"] } }))
      const [a] = await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      const { closed, claims } = await world.turn({ changes: [world.ended(a!)], claim: 9 })
      expect({ closed: closed.length, claims }).toEqual({ closed: 1, claims: [] })
      expect(await world.statuses(run.id)).toEqual({ a: "success", b: "cancelled" })
      expect((await world.run(run.id)).status).toBe("cancelled")
    })

    it("tells only the holder of live attempts", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const other = await world.join("other")
      await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      expect((await world.turn({ holder: other })).cancelling).toEqual([])
      expect((await world.turn()).cancelling).toHaveLength(1)
    })

    it("catches a row that comes back, be it by retry or release", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      await world.store.requestCancel(run.id, "cancel")
      const changes: Change[] = [world.again(a!, 60_000), { ...fence(b!), kind: "release" }]
      expect((await world.turn({ changes, claim: 9 })).closed).toHaveLength(1)
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", b: "cancelled" })
      expect(await world.task(run.id, "a")).toMatchObject({ availableAt: null, parked: null })
    })

    it("ends parked and waiting rows too", async () => {
      const world = await setup(open)
      const run = await world.start(workflow(tasks(4), { concurrency: 1 }))
      const [first] = await world.claim()
      await world.turn({ changes: [world.again(first!, 60_000)] })
      await world.store.setPaused(run.id, true)
      await world.turn({ claim: 9 })
      await world.store.requestCancel(run.id, "cancel")
      expect(await world.turn({ claim: 9 })).toMatchObject({ closed: [{ status: "cancelled" }], nextDueMs: null })
      expect((await world.run(run.id)).tasks.cancelled).toBe(4)
    })

    it("waits for a container's live instances, which the gate then gathers", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan }, late: { fan, after: ["each"] } }))
      const [gate] = await world.gate()
      const { claims } = await world.turn({ changes: [expandAll(gate!, [1, 2, 3])], claim: 1 })
      await world.store.requestCancel(run.id, "cancel")
      const turn = await world.turn({ claim: 9, gate: 9 })
      expect({ gates: turn.gates, closed: turn.closed }).toEqual({ gates: [], closed: [] })
      expect(await world.statuses(run.id)).toEqual({ "each[0]": "dispatched", "each[1]": "cancelled", "each[2]": "cancelled" })
      expect(await world.task(run.id, "late")).toMatchObject({ status: "cancelled" })
      const { gates } = await world.turn({ changes: [world.ended(claims[0]!, "cancelled")], gate: 9 })
      expect(gates[0]).toMatchObject({ kind: "fan", expanded: 3, childrenFailed: 3, run: { cancelling: "cancel" } })
      const gather: Change = {
        ...fence(gates[0]!),
        kind: "gather",
        status: "cancelled",
        output: { inline: [null, null, null] },
      }
      expect((await world.turn({ changes: [gather] })).closed).toMatchObject([{ status: "cancelled" }])
    })

    it("leaves a row to the gate that holds it, and catches it afterwards", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" }, each: { fan } }))
      const [a, each] = await world.gate()
      await world.store.requestCancel(run.id, "cancel")
      expect(await world.turn({ claim: 9, gate: 9 })).toMatchObject({ closed: [], gates: [] })
      const admit: Change = { ...fence(a!), kind: "admit", lane: "q:default", limits: [] }
      const { refused, claims } = await world.turn({ changes: [admit, expandAll(each!, [1, 2])], claim: 9 })
      expect({ refused, claims }).toEqual({ refused: [], claims: [] })
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", "each[0]": "cancelled", "each[1]": "cancelled" })
      const { gates } = await world.turn({ gate: 9 })
      const gather: Change = { ...fence(gates[0]!), kind: "gather", status: "cancelled", output: { inline: [null, null] } }
      expect((await world.turn({ changes: [gather] })).closed).toHaveLength(1)
    })

    it("gathers a fan-out of a paused run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const [gate] = await world.gate()
      const { claims } = await world.turn({ changes: [expandAll(gate!, [1])], claim: 1 })
      await world.store.setPaused(run.id, true)
      expect((await world.turn({ changes: [world.ended(claims[0]!)], gate: 9 })).gates).toEqual([])
      await world.store.requestCancel(run.id, "cancel")
      expect((await world.turn({ gate: 9 })).gates).toMatchObject([{ kind: "fan", run: { cancelling: "cancel" } }])
    })

    it("ends a fan-out whose gate died in the middle of making instances", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const other = await world.join("other")
      const [gate] = (await world.turn({ holder: other, gate: 9 })).gates
      const part: Change = { ...expandAll(gate!, [0, 1]), total: 4 } as Change
      const { claims } = await world.turn({ changes: [part], claim: 1 })
      await world.store.requestCancel(run.id, "cancel")
      await world.die(other)
      await world.store.reapHolders(10)
      await world.turn({ claim: 9, gate: 9 })
      const { gates } = await world.turn({ changes: [world.ended(claims[0]!, "cancelled")], gate: 9 })
      expect(gates[0]).toMatchObject({ expanded: 2, count: 2, childrenFailed: 2 })
      const gather: Change = { ...fence(gates[0]!), kind: "gather", status: "cancelled", output: { inline: [null, null] } }
      expect((await world.turn({ changes: [gather] })).closed).toHaveLength(1)
      expect((await world.run(run.id)).tasks).toMatchObject({ cancelled: 2, pending: 0 })
    })

    it("goes over 5,000 pending rows by a cursor", async () => {
      const world = await setup(open)
      const run = await world.start(workflow(tasks(5000)))
      await world.store.requestCancel(run.id, "cancel")
      const seen: number[] = []
      for (let more = true; more;) {
        const turn = await world.turn({ claim: 100 })
        expect(turn.claims).toEqual([])
        seen.push(turn.events.filter(({ type }) => type === "task").length)
        more = turn.more
      }
      expect(Math.max(...seen)).toBeLessThanOrEqual(1000)
      expect(seen.reduce((a, b) => a + b)).toBe(5000)
      expect(await world.run(run.id)).toMatchObject({ status: "cancelled", tasks: { cancelled: 5000, pending: 0 } })
    })

    it("of an ended or unknown run is refused, twice is fine", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(true)
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(true)
      await world.turn()
      expect(await world.store.requestCancel(run.id, "cancel")).toBe(false)
      expect(await world.store.requestCancel(world.newRun(await world.deploy(one)).id, "cancel")).toBe(false)
    })
  })

  describe("a run's timeout", () => {
    const flow = workflow({ a: {}, b: { after: ["a"] } }, { timeoutMs: 90_000 })

    it("cancels what is left and fails the run", async () => {
      const world = await setup(open)
      const run = await world.start(flow)
      const claimed = await world.turn({ claim: 9 })
      expect(claimed.nextDueMs).toBe(90_000)
      world.clock.pass(90_000)
      const turn = await world.turn({ claim: 9 })
      expect(turn).toMatchObject({ cancelling: [{ runSeq: run.seq, reason: "timeout" }], nextDueMs: null })
      await world.turn({ changes: [world.ended(claimed.claims[0]!, "cancelled")] })
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "timed out after 90s" })
      expect(await world.statuses(run.id)).toEqual({ a: "cancelled", b: "cancelled" })
    })

    it("does not touch a run that ended in time", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {} }, { timeoutMs: 1000 }))
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      world.clock.pass(1000)
      expect(await world.turn()).toMatchObject({ closed: [], nextDueMs: null })
      expect(await world.run(run.id)).toMatchObject({ status: "success", error: null })
    })
  })

  describe("the end of a run", () => {
    const hooked = workflow({
      a: {},
      b: {},
      "on_success.0": {},
      "on_failure.0": {},
      "on_failure.1": {},
      "on_cancel.0": {},
      "on_exit.0": {},
    })

    it.each([
      ["success", ["on_success.0", "on_exit.0"]],
      ["failed", ["on_failure.0", "on_failure.1", "on_exit.0"]],
    ] as const)("as %s makes its hooks in the same transaction, and they do not change it", async (status, hooks) => {
      const world = await setup(open)
      const run = await world.start(hooked)
      const [a, b] = await world.claim()
      world.clock.pass(10)
      const { closed, claims, events } = await world.turn({ changes: [world.ended(a!), world.ended(b!, status)], claim: 9 })
      expect(closed).toEqual([{ runSeq: run.seq, runId: run.id, status }])
      expect(events.filter(({ type }) => type === "run")).toMatchObject([{ status, at: iso(BEGIN + 10) }])
      expect(names(world, claims)).toEqual(hooks)
      expect(claims[0]!.run).toMatchObject({ status, error: status === "failed" ? "task b failed" : null, cancelling: null })
      const ended = await world.run(run.id)
      expect(ended).toMatchObject({ status, finishedAt: iso(BEGIN + 10), hooksLeft: hooks.length })
      world.clock.pass(10)
      const after = await world.turn({ changes: claims.map((claim) => world.ended(claim, "failed")), claim: 9 })
      expect(after).toMatchObject({ closed: [], claims: [] })
      expect(await world.run(run.id)).toEqual({ ...ended, hooksLeft: 0 })
    })

    it("by cancel runs the hooks of that", async () => {
      const world = await setup(open)
      const run = await world.start(hooked)
      await world.store.requestCancel(run.id, "cancel")
      const { closed, claims, cancelling } = await world.turn({ claim: 9 })
      expect(closed).toHaveLength(1)
      expect(names(world, claims)).toEqual(["on_cancel.0", "on_exit.0"])
      expect(cancelling).toEqual([])
      expect((await world.turn()).cancelling).toEqual([])
    })

    it("names the first task that failed", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(b!, "failed")] })
      world.clock.pass(1)
      const { events } = await world.turn({ changes: [world.ended(a!, "failed")] })
      expect(events.at(-1)).toMatchObject({ type: "run", status: "failed", error: "task b failed" })
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "task b failed" })
    })

    it("comes in the turn of the last end, not before", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      expect((await world.turn({ changes: [world.ended(a!, "failed")] })).closed).toEqual([])
      expect((await world.run(run.id)).status).toBe("running")
      expect((await world.turn({ changes: [world.ended(b!)] })).closed).toHaveLength(1)
    })
  })
}
