// Selection of rows by a claim, and the data that a claim carries.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { queueLane } from "../../../core/routing/lanes.ts"
import { workflow } from "../../../core/testing.ts"
import { BEGIN, fence, names, type Open, setup } from "../world.ts"

const one = workflow({ a: {} })

export const claimTests = (open: Open): void => {
  describe("a claim", () => {
    it("sets a row to dispatched under a new attempt id, counts the attempt and stores the holder's name", async () => {
      const world = await setup(open)
      const run = await world.start(one)
      const [claim] = await world.claim()
      expect(claim).toMatchObject({ node: 0, path: "", kind: "task", attempt: 1, failures: 0, losses: 0, runId: run.id })
      expect(await world.task(run.id, "a")).toMatchObject({
        status: "dispatched",
        attempt: 1,
        attemptId: claim!.attemptId,
        worker: "first",
        dispatchedAt: iso(BEGIN),
      })
    })

    it("claims a row once, and at most the requested number", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: {} }))
      expect(await world.claim(2)).toHaveLength(2)
      expect(await world.claim(2)).toHaveLength(1)
      expect(await world.claim(2)).toHaveLength(0)
    })

    it("selects rows only from the lanes that it names", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { queue: "gpu" }, b: { labels: ["x", "y"] }, c: {} }))
      expect(names(world, (await world.turn({ claim: 9, lanes: ["q:gpu"] })).claims)).toEqual(["a"])
      expect(
        names(world, (await world.turn({ claim: 9, lanes: [queueLane("default", ["x", "y"]), "q:default"] })).claims),
      ).toEqual(["b", "c"])
    })

    it("leaves rows of a private run to the holder that names its lanes", async () => {
      const world = await setup(open)
      const run = await world.start(one, { private: true })
      expect(await world.claim()).toEqual([])
      expect((await world.turn({ claim: 9, lanes: [`p:${run.id}:w`] })).claims).toHaveLength(1)
    })

    it("carries its run", async () => {
      const world = await setup(open)
      const params = { day: "monday", list: [1, { a: null }] }
      const input = {
        params,
        priority: 7,
        logicalDate: "2026-01-01T00:00:00.000Z",
        workingDir: "here",
        trigger: "webhook",
      } as const
      const run = await world.start(one, input)
      const [claim] = await world.claim()
      expect(claim).toMatchObject({ runSeq: run.seq, workflowId: run.workflowId, versionId: run.versionId, priority: 7 })
      expect(claim!.run).toEqual({
        workflow: "test",
        params,
        cause: null,
        trigger: "webhook",
        priority: 7,
        logicalDate: input.logicalDate,
        createdAt: iso(BEGIN),
        private: false,
        rootRunId: null,
        depth: 0,
        workingDir: "here",
        timezone: null,
        cancelling: null,
        status: "running",
        error: null,
      })
    })

    it("carries status and output of the nodes that the task reads, and no others", async () => {
      const world = await setup(open)
      const flow = workflow({ a: {}, b: {}, c: { after: ["a"] }, d: { after: ["c"], reads: [0, 2] } })
      await world.start(flow)
      const [a, b] = await world.claim()
      const [c] = (await world.turn({ changes: [world.ended(a!, "success", { rows: [1, 2] }), world.ended(b!)], claim: 9 }))
        .claims
      expect(c!.reads).toEqual(new Map([[0, { status: "success", output: { inline: { rows: [1, 2] } } }]]))
      const output = { key: "runs/x/output.json", bytes: 70_000 }
      const result = { state: "success", startedAt: BEGIN, finishedAt: BEGIN, output } as const
      const [d] = (await world.turn({ changes: [{ ...fence(c!), kind: "finish", status: "success", result }], claim: 9 }))
        .claims
      expect(d!.reads).toEqual(
        new Map([
          [0, { status: "success", output: { inline: { rows: [1, 2] } } }],
          [2, { status: "success", output }],
        ]),
      )
    })

    it("distinguishes a null output from no output", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {}, c: { after: ["a", "b"] } }))
      const [a, b] = await world.claim()
      const [c] = (await world.turn({ changes: [world.ended(a!, "success", null), world.ended(b!)], claim: 9 })).claims
      expect([...c!.reads.values()].map(({ output }) => output)).toEqual([{ inline: null }, null])
    })

    it("returns nothing to an unregistered holder", async () => {
      const world = await setup(open)
      await world.start(one)
      const stranger = "0198f000-0000-7000-8000-00000000dead" as typeof world.holder
      expect((await world.turn({ holder: stranger, claim: 9, gate: 9 })).claims).toEqual([])
      expect(await world.claim()).toHaveLength(1)
    })
  })

  it("returns empty results for an empty advance", async () => {
    const world = await setup(open)
    expect(await world.turn({ claim: 9, gate: 9 })).toEqual({
      rejected: [],
      claims: [],
      jobs: [],
      gateClaims: [],
      cancelling: [],
      stopRequests: [],
      closed: [],
      events: [],
      more: false,
      nextDueMs: null,
    })
  })
}
