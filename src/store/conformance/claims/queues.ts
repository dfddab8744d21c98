// Queues: pause, concurrency, rate, contents, and round-robin claims over all queues.

import { describe, expect, it } from "vitest"
import { queueLane } from "../../../core/routing/lanes.ts"
import { workflow } from "../../../core/testing.ts"
import type { QueueStore } from "../../contract/queues.ts"
import type { Store, TaskClaim } from "../../contract/store.ts"
import { claimFirst } from "./limits.ts"
import { type Open, setup, WORK, type World } from "../world.ts"

type Queued = World<Store & QueueStore>

const EVERY = ["q:*"]

/** Starts a run with this many tasks in one queue. */
const tasks = (count: number, queue = "default", labels: string[] = []) =>
  workflow(Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, { queue, labels }])), {
    name: `${queue}${labels.join("")}`,
  })

const queuesOf = (world: Queued, claims: readonly { versionId: number; node: number }[]): string[] =>
  claims.map(({ versionId, node }) => world.store.getLoadedVersion(versionId).nodes[node]!.queue)

/** More than a claim divides its rows among. */
const MANY = Array.from({ length: 70 }, (_, i) => String(i).padStart(2, "0"))

/** Claims one row after the other, without finishing any. */
const claimOneByOne = async (world: Queued, count: number, lanes: string[]): Promise<TaskClaim[]> => {
  const claims: TaskClaim[] = []
  for (let i = 0; i < count; i++) claims.push(...(await world.turn({ claim: 1, lanes })).claims)
  return claims
}

/** Claims without finishing any, as long as a turn says that there is more. */
const claimUntilNoMore = async (world: Queued, lanes: string[]): Promise<TaskClaim[]> => {
  const claims: TaskClaim[] = []
  for (let more = true; more;) {
    const turn = await world.turn({ claim: 1000, lanes })
    claims.push(...turn.claims)
    more = turn.more
  }
  return claims
}

export const queueTests = (open: Open<Store & QueueStore>): void => {
  describe("a queue", () => {
    it("has settings that can be changed separately", async () => {
      const { store } = await setup(open)
      expect(await store.getQueue("etl")).toBeNull()
      expect(await store.putQueue("etl", { concurrency: 2 })).toEqual({
        name: "etl",
        concurrency: 2,
        rate: null,
        paused: false,
        ready: 0,
        running: 0,
        oldestReadyMs: null,
      })
      await store.putQueue("etl", { rate: { limit: 5, periodMs: 1000 } })
      await store.putQueue("etl", { paused: true, concurrency: null })
      expect(await store.getQueue("etl")).toMatchObject({ concurrency: null, rate: { limit: 5, periodMs: 1000 }, paused: true })
    })

    it("shows ready and running tasks, with or without settings", async () => {
      const world = await setup(open)
      await world.start(tasks(3, "b"))
      await world.start(tasks(1, "b", ["gpu"]))
      await world.start(tasks(1, "a"))
      await world.start(tasks(1, "a"), { private: true })
      await world.store.putQueue("c", { concurrency: 1 })
      await world.turn({ claim: 1, lanes: ["q:b"] })
      world.clock.pass(500)
      expect((await world.store.listQueues()).map(({ name, ready, running }) => [name, ready, running])).toEqual([
        ["a", 1, 0],
        ["b", 3, 1],
        ["c", 0, 0],
      ])
      expect(await world.store.getQueue("a")).toMatchObject({ oldestReadyMs: 500, concurrency: null })
    })

    it("shows how long the oldest task has been ready, not how old its run is", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { after: ["a"], queue: "late" } }))
      const [a] = await world.claim()
      world.clock.pass(10_000)
      await world.turn({ changes: [world.ended(a!)] })
      world.clock.pass(300)
      expect(await world.store.getQueue("late")).toMatchObject({ ready: 1, oldestReadyMs: 300 })
    })

    it("that is paused yields no claims until it is resumed", async () => {
      const world = await setup(open)
      await world.start(tasks(1))
      await world.start(tasks(1, "other"))
      await world.store.putQueue("default", { paused: true })
      for (const lanes of [["q:default"], ["q:default", "q:other"], EVERY]) {
        const { claims, more, nextDueMs } = await world.turn({ claim: 9, lanes })
        expect(queuesOf(world, claims)).toEqual(lanes.length > 1 ? ["other"] : [])
        expect({ more, nextDueMs }).toEqual({ more: false, nextDueMs: null })
      }
      await world.store.putQueue("default", { paused: false })
      expect(await world.claim()).toHaveLength(1)
    })
  })

  describe("a queue that was paused in the meantime", () => {
    it("leaves a freed slot of a limit to a row of another queue", async () => {
      const world = await setup(open)
      const first = await claimFirst(world, [WORK, WORK, "q:other"])
      await world.store.putQueue("default", { paused: true })
      const lanes = [WORK, "q:other"]
      const turn = await world.turn({ changes: [world.ended(first)], claim: 9, lanes })
      const next = turn.more ? await world.turn({ claim: 9, lanes }) : turn
      expect(next.claims.map(({ node }) => node)).toEqual([2])
    })

    it("keeps the rows that a success unblocks", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { after: ["a"] } }))
      const claims = await world.claim()
      await world.store.putQueue("default", { paused: true })
      const { claims: none } = await world.turn({ changes: claims.map((claim) => world.ended(claim)), claim: 9, lanes: EVERY })
      expect(none).toEqual([])
      await world.store.putQueue("default", { paused: false })
      expect(await world.claim()).toMatchObject([{ node: 1 }])
    })
  })

  describe("the concurrency of a queue", () => {
    it("is never exceeded, and a freed slot is reused in the same advance", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { concurrency: 2 })
      await world.start(tasks(5))
      const first = await world.turn({ claim: 9 })
      expect(first.claims).toHaveLength(2)
      expect(first.more).toBe(false)
      expect(await world.claim()).toHaveLength(0)
      const [a, b] = first.claims
      const next = await world.turn({ claim: 9, changes: [world.ended(a!), world.again(b!, 0)] })
      expect(next.claims).toHaveLength(2)
      expect(await world.store.getQueue("default")).toMatchObject({ running: 2, ready: 2 })
    })

    it("frees the slot of a row that was released or whose holder died", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { concurrency: 1 })
      await world.start(tasks(1))
      const [a] = await world.claim()
      await world.turn({ changes: [{ row: a!.row, attemptId: a!.attemptId, kind: "release" }] })
      const other = await world.join("second")
      expect((await world.turn({ claim: 1, holder: other })).claims).toHaveLength(1)
      await world.die(other)
      const [lost] = await world.store.reapHolders(9)
      expect(await world.claim()).toHaveLength(0)
      expect((await world.turn({ changes: [world.again(lost!, 0, "lost")], claim: 9 })).claims).toHaveLength(1)
    })

    it("counts running tasks when it is set and covers all labels together", async () => {
      const world = await setup(open)
      await world.start(tasks(2))
      await world.start(tasks(2, "default", ["gpu"]))
      const [a, b] = await world.claim(2)
      await world.store.putQueue("default", { concurrency: 2 })
      const lanes = ["q:default", queueLane("default", ["gpu"])]
      expect((await world.turn({ claim: 9, lanes })).claims).toHaveLength(0)
      expect((await world.turn({ claim: 9, lanes, changes: [world.ended(a!)] })).claims).toHaveLength(1)
      await world.store.putQueue("default", { concurrency: null })
      expect((await world.turn({ claim: 9, lanes, changes: [world.ended(b!)] })).claims).toHaveLength(1)
    })

    it("does not block another queue of the same claim", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { concurrency: 1 })
      await world.start(tasks(3))
      await world.start(tasks(3, "other"))
      const { claims } = await world.turn({ claim: 9, lanes: ["q:default", "q:other"] })
      expect(queuesOf(world, claims).toSorted()).toEqual(["default", "other", "other", "other"])
    })
  })

  describe("the rate of a queue", () => {
    it("allows that many starts per period and returns when the next is possible", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { rate: { limit: 2, periodMs: 1000 } })
      await world.start(tasks(9))
      const first = await world.turn({ claim: 9 })
      expect(first.claims).toHaveLength(2)
      expect(first.nextDueMs).toBe(500)
      world.clock.pass(499)
      expect((await world.turn({ claim: 9 })).claims).toHaveLength(0)
      world.clock.pass(1)
      expect((await world.turn({ claim: 9 })).claims).toHaveLength(1)
      world.clock.pass(60_000)
      expect((await world.turn({ claim: 9 })).claims).toHaveLength(2)
    })

    it("requests no advance when nothing waits", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { rate: { limit: 1, periodMs: 1000 } })
      await world.start(tasks(1))
      expect(await world.turn({ claim: 9 })).toMatchObject({ nextDueMs: null, more: false })
    })
  })

  describe("work of remote executors", () => {
    const REMOTE = ["s:*"]
    const jobs = (count: number, queue = "default") =>
      workflow(Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, { queue, executor: "slurm" }])), {
        name: `remote_${queue}`,
      })

    it("is claimed from every queue, together with local work or alone", async () => {
      const world = await setup(open)
      await world.start(jobs(2))
      await world.start(jobs(2, "hpc"))
      await world.start(tasks(2))
      await world.start(jobs(1), { private: true })
      expect(await world.claim(1)).toHaveLength(1)
      const alone = await world.turn({ claim: 2, lanes: REMOTE })
      expect(queuesOf(world, alone.claims).toSorted()).toEqual(["default", "hpc"])
      const both = await world.turn({ claim: 9, lanes: [...EVERY, ...REMOTE] })
      expect(both.claims).toHaveLength(3)
      expect(both.more).toBe(false)
      expect((await world.turn({ claim: 9, lanes: ["q:default", ...REMOTE] })).claims).toHaveLength(0)
    })

    it("stops while its queue is paused", async () => {
      const world = await setup(open)
      await world.start(jobs(1))
      await world.start(jobs(1, "hpc"))
      await world.store.putQueue("hpc", { paused: true })
      for (const lanes of [REMOTE, ["q:default", ...REMOTE], [...EVERY, ...REMOTE]]) {
        const { claims } = await world.turn({ claim: 9, lanes })
        expect(queuesOf(world, claims)).toEqual(lanes === REMOTE ? ["default"] : [])
      }
      await world.store.putQueue("hpc", { paused: false })
      expect((await world.turn({ claim: 9, lanes: REMOTE })).claims).toHaveLength(1)
    })

    it("shares the slots of its queue with local work and frees them when it finishes", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { concurrency: 2 })
      await world.start(jobs(3))
      await world.start(tasks(3))
      const lanes = [...EVERY, ...REMOTE]
      const { claims } = await world.turn({ claim: 9, lanes })
      expect(claims).toHaveLength(2)
      expect(await world.store.getQueue("default")).toMatchObject({ running: 2, ready: 4 })
      expect((await world.turn({ claim: 9, lanes: REMOTE })).claims).toHaveLength(0)
      const next = await world.turn({ claim: 9, lanes: REMOTE, changes: [world.ended(claims[0]!), world.again(claims[1]!, 0)] })
      expect(next.claims).toHaveLength(2)
      expect((await world.turn({ claim: 9, lanes })).claims).toHaveLength(0)
      await world.store.putQueue("default", { concurrency: null })
      expect((await world.turn({ claim: 9, lanes })).claims).toHaveLength(3)
    })

    it("counts running tasks when a limit is set", async () => {
      const world = await setup(open)
      await world.start(jobs(3))
      const { claims } = await world.turn({ claim: 1, lanes: REMOTE })
      await world.store.putQueue("default", { concurrency: 1 })
      expect((await world.turn({ claim: 9, lanes: REMOTE })).claims).toHaveLength(0)
      expect((await world.turn({ claim: 9, lanes: REMOTE, changes: [world.ended(claims[0]!)] })).claims).toHaveLength(1)
    })

    it("starts at the rate of its queue", async () => {
      const world = await setup(open)
      await world.store.putQueue("default", { rate: { limit: 1, periodMs: 1000 } })
      await world.start(jobs(2))
      const first = await world.turn({ claim: 9, lanes: REMOTE })
      expect(first.claims).toHaveLength(1)
      expect(first.nextDueMs).toBe(1000)
      world.clock.pass(1000)
      expect((await world.turn({ claim: 9, lanes: REMOTE })).claims).toHaveLength(1)
    })
  })

  describe("a claim from every queue", () => {
    it("selects from all shared lanes, alternating among queues, and from no lane of a private run or of labels", async () => {
      const world = await setup(open)
      await world.start(tasks(4, "a"))
      await world.start(tasks(4, "b"))
      await world.start(tasks(1, "c"))
      await world.start(tasks(1, "c", ["gpu"]))
      await world.start(tasks(4, "a"), { private: true })
      const first = await world.turn({ claim: 4, lanes: EVERY })
      expect(queuesOf(world, first.claims).toSorted()).toEqual(["a", "a", "b", "c"])
      const one = async () => queuesOf(world, (await world.turn({ claim: 1, lanes: EVERY })).claims)[0]
      const order = [await one(), await one(), await one(), await one()]
      expect(order.filter((queue) => queue === "a")).toHaveLength(2)
      expect(order[0]).not.toBe(order[1])
      const rest = await world.turn({ claim: 9, lanes: EVERY })
      expect(queuesOf(world, rest.claims)).toEqual(["b"])
      expect(rest.more).toBe(false)
    })

    it("serves the highest priority of each queue first and alternates among the workflows of a queue", async () => {
      const world = await setup(open)
      const flow = (name: string) => workflow({ a: { queue: "x" } }, { name })
      await world.start(flow("low"), { priority: 1 })
      for (let i = 0; i < 3; i++) await world.start(flow("w1"), { priority: 9 })
      await world.start(flow("w2"), { priority: 9 })
      await world.start(workflow({ a: { queue: "y" } }, { name: "w3" }))
      const { claims } = await world.turn({ claim: 3, lanes: EVERY })
      expect(claims.map(({ run }) => run.workflow).toSorted()).toEqual(["w1", "w2", "w3"])
    })

    it("gives all of 70 workflows to a claim that asks for more", async () => {
      const world = await setup(open)
      for (const name of MANY) await world.start(workflow({ a: {} }, { name }))
      const first = await world.turn({ claim: 1000 })
      const rest = first.more ? await world.turn({ claim: 1000 }) : null
      expect([...first.claims, ...(rest?.claims ?? [])]).toHaveLength(MANY.length)
    })

    it.each([
      ["named", ["q:default"]],
      ["every queue", EVERY],
    ])("serves 70 workflows in turn (%s)", async (_, lanes) => {
      const world = await setup(open)
      for (const name of MANY) await world.start(workflow({ a: {}, b: {} }, { name }))
      const claims = await claimOneByOne(world, MANY.length, lanes)
      expect(new Set(claims.map(({ workflowId }) => workflowId)).size).toBe(MANY.length)
    })
  })

  describe("70 queues", () => {
    it("are served in turn", async () => {
      const world = await setup(open)
      await world.start(
        workflow(Object.fromEntries(MANY.flatMap((name) => ["a", "b"].map((task) => [task + name, { queue: name }])))),
      )
      const claims = await claimOneByOne(world, MANY.length, EVERY)
      expect(new Set(queuesOf(world, claims)).size).toBe(MANY.length)
    })

    it("are all served by claims that ask for more", async () => {
      const world = await setup(open)
      await world.start(workflow(Object.fromEntries(MANY.map((name) => [`t${name}`, { queue: name }]))))
      expect(await claimUntilNoMore(world, EVERY)).toHaveLength(MANY.length)
    })

    it("are all served although the rows of most of them find no slot", async () => {
      const world = await setup(open)
      const inQueues = (queues: string[]) => Object.fromEntries(queues.map((name) => [`t${name}`, { queue: name }]))
      await world.start(workflow(inQueues(MANY.slice(0, 66)), { name: "limited", concurrency: 1 }))
      await world.start(workflow(inQueues(MANY.slice(66))))
      expect(await claimUntilNoMore(world, EVERY)).toHaveLength(5)
    })

    it.each([
      ["paused", { paused: true }],
      ["full", { concurrency: 1 }],
      ["out of tokens", { rate: { limit: 1, periodMs: 60_000 } }],
    ])("that are %s do not keep another from being served", async (_, settings) => {
      const world = await setup(open)
      await world.start(
        workflow(Object.fromEntries(MANY.flatMap((name) => ["a", "b"].map((task) => [task + name, { queue: name }])))),
      )
      for (const name of MANY) await world.store.putQueue(name, settings)
      if (!("paused" in settings)) while ((await world.turn({ claim: 70, lanes: EVERY })).claims.length > 0);
      await world.start(workflow({ last: { queue: "zz" } }, { name: "other" }))
      const { claims, nextDueMs } = await world.turn({ claim: 9, lanes: EVERY })
      expect(queuesOf(world, claims)).toEqual(["zz"])
      expect(nextDueMs).toBe("rate" in settings ? 60_000 : null)
      expect(await world.turn({ claim: 9, lanes: EVERY })).toMatchObject({ claims: [], more: false })
    })
  })
}
