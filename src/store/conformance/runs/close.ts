// Closing of runs, and their hooks.

import { describe, expect, it } from "vitest"
import { fenceOf } from "../../../core/model/change.ts"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import { BEGIN, names, type Open, setup } from "../world.ts"

export const closeTests = (open: Open): void => {
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
      expect(ended).toMatchObject({ status, finishedAt: iso(BEGIN + 10), hooksPending: hooks.length })
      world.clock.pass(10)
      const after = await world.turn({ changes: claims.map((claim) => world.ended(claim, "failed")), claim: 9 })
      expect(after).toMatchObject({ closed: [], claims: [] })
      expect(await world.run(run.id)).toEqual({ ...ended, hooksPending: 0 })
    })

    it("by cancellation runs the on_cancel hooks", async () => {
      const world = await setup(open)
      const run = await world.start(hooked)
      await world.store.requestCancel(run.id, "cancel")
      const { closed, claims, cancelling } = await world.turn({ claim: 9 })
      expect(closed).toHaveLength(1)
      expect(names(world, claims)).toEqual(["on_cancel.0", "on_exit.0"])
      expect(cancelling).toEqual([])
      expect((await world.turn()).cancelling).toEqual([])
    })

    it("names the first failed task", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(b!, "failed")] })
      world.clock.pass(1)
      const { events } = await world.turn({ changes: [world.ended(a!, "failed")] })
      expect(events.at(-1)).toMatchObject({ type: "run", status: "failed", error: "task b failed" })
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "task b failed" })
    })

    it("is a success although a task failed that `continue_on_error` allows to fail", async () => {
      const world = await setup(open)
      const run = await world.start(
        workflow({
          a: { continueOnError: true },
          below: { after: ["a"] },
          none: { after: ["a"], rule: "any_failed", gated: true },
        }),
      )
      const [a] = await world.claim()
      const { claims } = await world.turn({ changes: [world.ended(a!, "failed")], claim: 9 })
      expect(names(world, claims)).toEqual(["below"])
      const [none] = await world.gate()
      expect(none!.upstream).toEqual({ failed: 0, unmet: 0, waived: 0 })
      const skip = { ...fenceOf(none!), kind: "skip", skipReason: "waived", reason: "nothing failed" } as const
      await world.turn({ changes: [world.ended(claims[0]!), skip] })
      expect(await world.run(run.id)).toMatchObject({ status: "success", error: null, tasks: { failed: 1, success: 1 } })
      expect(await world.task(run.id, "a")).toMatchObject({ status: "failed" })
    })

    it("names the first task whose failure is not allowed", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { continueOnError: true }, b: {} }))
      const [a, b] = await world.claim()
      await world.turn({ changes: [world.ended(a!, "failed")] })
      world.clock.pass(1)
      await world.turn({ changes: [world.ended(b!, "failed")] })
      expect(await world.run(run.id)).toMatchObject({ status: "failed", error: "task b failed" })
    })

    it("happens in the advance that finishes the last task", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: {} }))
      const [a, b] = await world.claim()
      expect((await world.turn({ changes: [world.ended(a!, "failed")] })).closed).toEqual([])
      expect((await world.run(run.id)).status).toBe("running")
      expect((await world.turn({ changes: [world.ended(b!)] })).closed).toHaveLength(1)
    })
  })
}
