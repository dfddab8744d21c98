// Tasks that call registered functions have lanes of their own, which only holders with the function claim from.

import { describe, expect, it } from "vitest"
import { FUNCTION_EXECUTOR } from "../../../core/model/function.ts"
import { lanesOf } from "../../../core/routing/capabilities.ts"
import { workflow } from "../../../core/testing.ts"
import type { JobStore } from "../../contract/jobs.ts"
import type { QueueStore } from "../../contract/queues.ts"
import type { Store, TaskClaim } from "../../contract/store.ts"
import { create } from "../jobs/jobs.ts"
import { names, type Open, setup, type World } from "../world.ts"

type Backend = Store & QueueStore & JobStore

const call = (name: string, queue = "default", labels: string[] = []) =>
  workflow(
    { [name]: { executor: FUNCTION_EXECUTOR, function: name, queue, labels } },
    { name: `${name}-${queue}${labels.join("")}` },
  )

const claimedFrom = async (world: World<Backend>, ...lanes: string[]): Promise<string[]> => {
  const { claims } = await world.turn({ claim: 9, lanes })
  return claims.map(({ run }) => run.workflow).toSorted()
}

export const callTests = (open: Open<Backend>): void => {
  describe("calls of registered functions", () => {
    it("are claimed only through lanes that name queue, function and labels", async () => {
      const world = await setup(open)
      await world.start(call("resize"))
      await world.start(call("resize", "media", ["gpu"]))
      await world.start(call("send"))
      expect(await claimedFrom(world, "q:*")).toEqual([])
      expect(await claimedFrom(world, "q:default", "f:media||gpu", "h:default")).toEqual([])
      expect(await claimedFrom(world, "f:default|resize", "f:media|resize")).toEqual(["resize-default"])
      expect(await claimedFrom(world, "f:media|resize|gpu")).toEqual(["resize-mediagpu"])
    })

    it("are claimed from every queue through the lane of the function in all queues", async () => {
      const world = await setup(open)
      await world.start(call("resize"))
      await world.start(call("resize", "media"))
      await world.start(call("resize", "media", ["gpu"]))
      await world.start(call("send"))
      await world.start(workflow({ a: {} }, { name: "plain" }))
      expect(await claimedFrom(world, "f:*|res", "f:*|resizes")).toEqual([])
      expect(await claimedFrom(world, "q:*", "f:*|resize")).toEqual(["plain", "resize-default", "resize-media"])
      expect(await claimedFrom(world, "q:*", "f:*|resize")).toEqual([])
      expect(await claimedFrom(world, "f:*||gpu")).toEqual([])
      expect(await claimedFrom(world, "f:*|resize|gpu")).toEqual(["resize-mediagpu"])
      expect(await claimedFrom(world, "f:*|send", "f:*|other")).toEqual(["send-default"])
    })

    it("are claimed by the advance that unblocks them, in turn when it may claim fewer", async () => {
      const world = await setup(open)
      const task = (name: string, after: string[] = []) => ({ executor: FUNCTION_EXECUTOR, function: name, after })
      const graph = workflow({ a: task("f"), b: task("f", ["a"]), c: task("f", ["b"]), d: task("g", ["b"]) })
      await world.start(graph)
      const next = async (claims: readonly TaskClaim[]): Promise<TaskClaim[]> =>
        (await world.turn({ claim: 1, lanes: ["f:*|f", "f:*|g"], changes: claims.map((claim) => world.ended(claim)) })).claims
      const seen: string[][] = []
      for (let claims = await next([]); claims.length > 0; claims = await next(claims)) seen.push(names(world, claims))
      expect(seen).toHaveLength(4)
      expect(seen.slice(0, 2)).toEqual([["a"], ["b"]])
      expect(seen.slice(2).flat().toSorted()).toEqual(["c", "d"])
    })

    it("are not the only restricted work: tasks with labels are claimed by holders of all queues that name the labels", async () => {
      const world = await setup(open)
      const labelled = (queue: string, labels: string[]) =>
        workflow({ a: { queue, labels } }, { name: `${queue}-${labels.join("-")}` })
      for (const queue of ["default", "media"]) {
        await world.start(labelled(queue, ["gpu"]))
        await world.start(labelled(queue, ["eu", "gpu"]))
      }
      expect(await claimedFrom(world, ...lanesOf({ queues: "all", labels: [], handlers: [] }))).toEqual([])
      expect(await claimedFrom(world, ...lanesOf({ queues: "all", labels: ["gpu"], handlers: [] }))).toEqual([
        "default-gpu",
        "media-gpu",
      ])
      expect(await claimedFrom(world, ...lanesOf({ queues: "all", labels: ["gpu", "eu"], handlers: [] }))).toEqual([
        "default-eu-gpu",
        "media-eu-gpu",
      ])
    })

    it("obey the settings of their queue and count towards them", async () => {
      const world = await setup(open)
      await world.store.putQueue("media", { paused: true })
      await world.start(call("resize", "media"))
      await world.start(call("send", "media"))
      expect(await claimedFrom(world, "q:*", "f:*|resize", "f:*|send")).toEqual([])
      await world.store.putQueue("media", { paused: false, concurrency: 1 })
      expect(await claimedFrom(world, "q:*", "f:*|resize", "f:*|send")).toHaveLength(1)
      expect(await claimedFrom(world, "f:media|resize", "f:media|send")).toEqual([])
      expect(await world.store.getQueue("media")).toMatchObject({ ready: 1, running: 1 })
    })

    it("of 70 queues are served in turn, whether or not others are paused", async () => {
      const world = await setup(open)
      const queues = Array.from({ length: 70 }, (_, i) => `q${String(i).padStart(2, "0")}`)
      const task = (queue: string) => ({ executor: FUNCTION_EXECUTOR, function: "f", queue })
      const names = queues.flatMap((queue) => [`a${queue}`, `b${queue}`])
      await world.start(workflow(Object.fromEntries(names.map((name) => [name, task(name.slice(1))]))))
      const served = new Set<string>()
      for (let i = 0; i < 70; i++) {
        const { claims } = await world.turn({ claim: 1, lanes: ["f:*|f"] })
        for (const { versionId, node } of claims) served.add(world.store.getLoadedVersion(versionId).nodes[node]!.queue)
      }
      expect(served.size).toBe(70)
      for (const name of queues) await world.store.putQueue(name, { paused: true })
      await world.start(call("f", "zz"))
      expect(await claimedFrom(world, "f:*|f")).toEqual(["f-zz"])
      expect(await world.turn({ claim: 9, lanes: ["f:*|f"] })).toMatchObject({ claims: [], more: false })
    })

    it("of 70 queues are all served by claims that ask for more", async () => {
      const world = await setup(open)
      const task = (i: number) => ({ executor: FUNCTION_EXECUTOR, function: "f", queue: `q${i}` })
      await world.start(workflow(Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`t${i}`, task(i)]))))
      const first = await world.turn({ claim: 1000, lanes: ["f:*|f"] })
      const rest = first.more ? await world.turn({ claim: 1000, lanes: ["f:*|f"] }) : null
      expect([...first.claims, ...(rest?.claims ?? [])]).toHaveLength(70)
    })

    describe("that an advance unblocks", () => {
      const step = (after: string[] = [], other: { queue?: string; function?: string } = {}) => ({
        executor: FUNCTION_EXECUTOR,
        function: "step",
        after,
        ...other,
      })

      /** Claims one task, finishes it, and returns the tasks that are claimed with that. */
      const following = async (world: World<Backend>, claim: number, ...lanes: string[]): Promise<string[]> => {
        const { claims } = await world.turn({ claim: 1, lanes })
        const next = await world.turn({ changes: claims.map((each) => world.ended(each)), claim, lanes })
        return next.claims.map(({ versionId, node }) => world.store.getLoadedVersion(versionId).nodes[node]!.name)
      }

      it("are claimed by it, whatever their queue", async () => {
        const world = await setup(open)
        await world.start(workflow({ a: step(), b: step(["a"]), c: step(["a"], { queue: "media" }) }))
        expect((await following(world, 9, "f:*|step")).toSorted()).toEqual(["b", "c"])
      })

      it("are left to holders of their function", async () => {
        const world = await setup(open)
        await world.start(workflow({ a: step(), b: step(["a"], { function: "send" }) }))
        expect(await following(world, 9, "q:*", "f:*|step")).toEqual([])
        expect(await claimedFrom(world, "f:*|send")).toEqual(["test"])
      })

      it("do not overtake a ready row of their lane", async () => {
        const world = await setup(open)
        await world.start(workflow({ a: step(), x: step(), b: step(["a"]) }))
        expect(await following(world, 1, "f:*|step")).toEqual(["x"])
      })

      it("wait while their queue is paused", async () => {
        const world = await setup(open)
        await world.store.putQueue("media", { paused: true })
        await world.start(workflow({ a: step(), b: step(["a"], { queue: "media" }) }))
        expect(await following(world, 9, "f:*|step")).toEqual([])
        await world.store.putQueue("media", { paused: false })
        expect(await claimedFrom(world, "f:*|step")).toEqual(["test"])
      })
    })

    it("made by jobs wait in the same lanes", async () => {
      const world = await setup(open)
      await create(world, { queue: "media", task: { executor: FUNCTION_EXECUTOR, function: "resize" } })
      expect((await world.turn({ claim: 9, lanes: ["q:*", "h:media"] })).jobs).toEqual([])
      expect((await world.turn({ claim: 9, lanes: ["f:media|resize"] })).jobs).toHaveLength(1)
    })
  })
}
