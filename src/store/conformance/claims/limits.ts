// Limits are never exceeded, never leave a free slot unused, and are enforced without a scan.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { keyLimit } from "../../../core/rules/runs/new-rows.ts"
import { planRetry } from "../../../core/rules/runs/retry-plan.ts"
import { workflow } from "../../../core/testing.ts"
import type { RunRow, TaskClaim } from "../../contract/store.ts"
import { BEGIN, expandAll, fence, type Open, setup, WORK, type World } from "../world.ts"

const tasks = (count: number, input = {}) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, input]))
const fan = { foreach: { lit: [] }, reference: "items" }

/** Claims and finishes rows until none is left; returns the highest number in flight and the finished rows. */
const drain = async (world: World): Promise<{ most: number; done: number }> => {
  let most = 0
  let done = 0
  for (let turn = await world.turn({ claim: 1000 }); turn.claims.length > 0;) {
    most = Math.max(most, turn.claims.length)
    done += turn.claims.length
    turn = await world.turn({ changes: turn.claims.map((claim) => world.ended(claim)), claim: 1000 })
  }
  return { most, done }
}

/** Starts one task per lane under a shared limit of 1, and claims the first. */
export const claimFirst = async (world: Pick<World, "start" | "gate" | "turn">, lanes: string[]): Promise<TaskClaim> => {
  await world.start(workflow(Object.fromEntries(lanes.map((_, i) => [`t${i}`, { if: "true" }]))))
  const limits = [{ key: "k:shared", cap: 1 }]
  const changes = (await world.gate()).map((gate): Change => {
    return { ...fence(gate), kind: "enqueue", lane: lanes[gate.node]!, limits }
  })
  const { claims } = await world.turn({ changes, claim: 9, lanes: [...new Set(lanes)] })
  expect(claims.map(({ node }) => node)).toEqual([0])
  return claims[0]!
}

/** Enqueues the row that waits for the gate, under a limit of 1. */
const enqueue = async (world: World, key: string): Promise<void> => {
  const [gate] = await world.gate()
  await world.turn({ changes: [{ ...fence(gate!), kind: "enqueue", lane: WORK, limits: [{ key: `k:${key}`, cap: 1 }] }] })
}

export const limitTests = (open: Open): void => {
  describe("a limit", () => {
    it("of a run bounds its tasks in flight and parks the others", async () => {
      const world = await setup(open)
      const run = await world.start(workflow(tasks(5), { concurrency: 2 }))
      expect(await world.claim()).toHaveLength(2)
      expect(await world.claim()).toEqual([])
      expect((await world.task(run.id, "t4")).parked).toEqual({ limit: `r:${run.id}`, cap: 2, used: 2 })
      expect((await world.task(run.id, "t0")).parked).toBeNull()
    })

    it("of one run does not bound another", async () => {
      const world = await setup(open)
      const flow = workflow(tasks(5), { concurrency: 2 })
      await world.start(flow)
      await world.start(flow)
      expect(await world.claim()).toHaveLength(4)
    })

    it.each([
      ["4,000 different characters", Array.from({ length: 4000 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join("")],
      ["512 characters of three bytes", Array.from({ length: 512 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join("")],
      ["a NUL character", "a\0b"],
      ["half of a surrogate pair", "a\uD800"],
    ])("of a concurrency_key with %s holds", async (_, key) => {
      const world = await setup(open)
      const flow = workflow({ a: { concurrencyKey: "key" }, b: { concurrencyKey: "key" } })
      await world.start(flow)
      const gates = await world.gate()
      const limits = [keyLimit(flow.nodes[0]!, 1, key)]
      const changes = gates.map((gate): Change => ({ ...fence(gate), kind: "enqueue", lane: WORK, limits }))
      expect((await world.turn({ changes, claim: 9 })).claims).toHaveLength(1)
    })

    it.each(["finish", "retry", "release"] as const)("gets its slot back by %s, in the same turn", async (kind) => {
      const world = await setup(open)
      await world.start(workflow(tasks(3), { concurrency: 1 }))
      const [first] = await world.claim()
      const changes: Record<typeof kind, Change> = {
        finish: world.ended(first!),
        retry: world.again(first!, 60_000),
        release: { ...fence(first!), kind: "release" },
      }
      const { claims } = await world.turn({ changes: [changes[kind]], claim: 9 })
      expect(claims).toHaveLength(1)
      expect(await world.claim()).toEqual([])
    })

    it("gives a freed slot to a row that is claimed, although a row that nobody claims comes first", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { if: "true" }, b: { if: "true" }, c: { if: "true" } }))
      const lanes = [WORK, "q:away", WORK]
      const gates = await world.gate()
      const changes = gates.map((gate): Change => {
        return { ...fence(gate), kind: "enqueue", lane: lanes[gate.node]!, limits: [{ key: "k:shared", cap: 1 }] }
      })
      const { claims } = await world.turn({ changes, claim: 9, lanes: [WORK, "q:away"] })
      expect(claims.map(({ node }) => node)).toEqual([0])
      const next = await world.turn({ changes: [world.ended(claims[0]!)], claim: 9 })
      expect(next.claims.map(({ node }) => node)).toEqual([2])
      expect(await world.claim()).toEqual([])
      const last = await world.turn({ changes: [world.ended(next.claims[0]!)], claim: 9, lanes: ["q:away"] })
      expect(last.claims.map(({ node }) => node)).toEqual([1])
    })

    it("leaves a freed slot to another holder when the claimer has no row for it", async () => {
      const world = await setup(open)
      const first = await claimFirst(world, [WORK, "q:away", "q:far"])
      expect((await world.turn({ changes: [world.ended(first)], claim: 9 })).claims).toEqual([])
      const { claims } = await world.turn({ claim: 9, lanes: ["q:far"] })
      expect(claims.map(({ node }) => node)).toEqual([2])
      expect((await world.turn({ claim: 9, lanes: ["q:away"] })).claims).toEqual([])
    })

    it("gives each freed slot to one row of the lanes of a claim, in the same advance", async () => {
      const world = await setup(open)
      let claim = await claimFirst(world, [WORK, "q:c", "q:a", "q:b"])
      const nodes: number[] = []
      for (let i = 0; i < 3; i++) {
        const turn = await world.turn({ changes: [world.ended(claim)], claim: 9, lanes: ["q:*"] })
        expect(turn.claims).toHaveLength(1)
        claim = turn.claims[0]!
        nodes.push(claim.node)
      }
      expect(new Set(nodes)).toEqual(new Set([1, 2, 3]))
    })

    it("is not affected by a stale attempt", async () => {
      const world = await setup(open)
      const run = await world.start(workflow(tasks(3), { concurrency: 1 }))
      const [old] = await world.claim()
      const { claims } = await world.turn({ changes: [world.again(old!, 60_000)], claim: 9 })
      expect(claims).toHaveLength(1)
      await world.turn({ changes: [world.ended(old!)] })
      expect(await world.claim()).toEqual([])
      expect((await world.task(run.id, "t2")).parked).toMatchObject({ used: 1 })
    })

    it("unparks by priority, then run, then row", async () => {
      const world = await setup(open)
      const limits = [{ key: "k:shared", cap: 1 }]
      const start = async (priority: number) => {
        const run = await world.start(workflow({ a: { if: "true" } }), { priority })
        const [gate] = await world.gate()
        await world.turn({ changes: [{ ...fence(gate!), kind: "enqueue", lane: WORK, limits }] })
        return run.id
      }
      const [low, middle, high, last] = [await start(3), await start(5), await start(9), await start(5)]
      const order: string[] = []
      for (let turn = await world.turn({ claim: 9 }); turn.claims.length > 0;) {
        order.push(turn.claims[0]!.runId)
        expect(turn.claims).toHaveLength(1)
        turn = await world.turn({ changes: [world.ended(turn.claims[0]!)], claim: 9 })
      }
      expect(order).toEqual([high, middle, last, low])
    })

    it("applies together with another limit of the same row, and neither leaves a slot unused", async () => {
      const world = await setup(open)
      // Six instances under the task's limit of 2, six plain tasks; the run takes 4 at once.
      await world.start(workflow({ each: { fan }, ...tasks(6) }, { concurrency: 4 }))
      const [gate] = await world.gate()
      const runId = gate!.runId
      const limits = [
        { key: `r:${runId}`, cap: 4 },
        { key: `t:${runId}:0`, cap: 2 },
      ]
      let { claims } = await world.turn({ changes: [expandAll(gate!, [0, 1, 2, 3, 4, 5], limits)], claim: 99 })
      const left = { plain: 6, instances: 6 }
      while (left.plain + left.instances > 0) {
        const instances = claims.filter((claim) => claim.path !== "").length
        expect(instances).toBeLessThanOrEqual(2)
        expect(claims).toHaveLength(Math.min(4, left.plain + Math.min(2, left.instances)))
        left.instances -= instances
        left.plain -= claims.length - instances
        claims = (await world.turn({ changes: claims.map((claim) => world.ended(claim)), claim: 99 })).claims
      }
      expect(claims).toEqual([])
    })

    it("that is full passes the slot of the row's other limit to the next row", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true" }, b: { if: "true" }, c: { if: "true" } }))
      const [a, b, c] = await world.gate()
      const [x, y] = [
        { key: "k:x", cap: 1 },
        { key: "k:y", cap: 1 },
      ]
      const admit = (claim: typeof a, limits: { key: string; cap: number }[]): Change => ({
        ...fence(claim!),
        kind: "enqueue",
        lane: WORK,
        limits,
      })
      // a takes x and y. b waits under x, c under y.
      await world.turn({ changes: [admit(a, [x, y])] })
      const [held] = await world.claim()
      await world.turn({ changes: [admit(b, [x, y]), admit(c, [y])], claim: 9 })
      expect((await world.task(run.id, "b")).parked).toMatchObject({ limit: "k:x" })
      expect((await world.task(run.id, "c")).parked).toMatchObject({ limit: "k:y" })
      const { claims } = await world.turn({ changes: [world.ended(held!)], claim: 9 })
      expect(claims).toHaveLength(1)
      const next = await world.turn({ changes: [world.ended(claims[0]!)], claim: 9 })
      expect(next.claims).toHaveLength(1)
    })

    it("whose cap was raised admits more rows", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { if: "true" }, b: { if: "true" }, c: { if: "true" } }))
      const gates = await world.gate()
      const admit = (claim: (typeof gates)[number], cap: number): Change => ({
        ...fence(claim),
        kind: "enqueue",
        lane: WORK,
        limits: [{ key: "k", cap }],
      })
      await world.turn({ changes: [admit(gates[0]!, 1), admit(gates[1]!, 1)] })
      expect(await world.claim()).toHaveLength(1)
      const { claims } = await world.turn({ changes: [admit(gates[2]!, 3)], claim: 9 })
      expect(claims).toHaveLength(2)
    })

    it("does not read all of 10,000 instances", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan }, other: {} }))
      const [gate] = await world.gate()
      const limits = [{ key: `t:${run.id}:0`, cap: 4 }]
      for (let offset = 0; offset < 10_000; offset += 1000) {
        const items = Array.from({ length: 1000 }, (_, i) => i)
        const expand: Change = {
          ...fence(gate!),
          kind: "expand",
          total: 10_000,
          offset,
          items,
          lane: WORK,
          priority: 5,
          limits,
        }
        await world.turn({ changes: [expand] })
      }
      // Nearly all instances are parked before the first claim.
      const all = await world.store.listTasks({ runId: run.id, name: "each", limit: 10_000 })
      expect(all.filter(({ parked }) => parked === null).length).toBeLessThanOrEqual(40)
      const { claims, more } = await world.turn({ claim: 100 })
      expect({ taken: claims.length, more }).toEqual({ taken: 5, more: false })
      const instances = claims.filter((claim) => claim.path !== "")
      expect(instances).toHaveLength(4)
      const next = await world.turn({ changes: [world.ended(instances[0]!)], claim: 100 })
      expect(next.claims).toHaveLength(1)
    })

    it("makes instances of a later chunk ready when slots are free by then", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan } }))
      const [gate] = await world.gate()
      const limits = [{ key: `t:${run.id}:0`, cap: 2 }]
      const part = (offset: number): Change => ({
        ...fence(gate!),
        kind: "expand",
        total: 8,
        offset,
        items: [0, 1, 2, 3],
        lane: WORK,
        priority: 5,
        limits,
      })
      await world.turn({ changes: [part(0)] })
      expect(await drain(world)).toEqual({ most: 2, done: 4 })
      await world.turn({ changes: [part(4)] })
      expect(await drain(world)).toEqual({ most: 2, done: 4 })
    })

    it("counts the used slots when instances are created", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ each: { fan }, ...tasks(2) }, { concurrency: 3 }))
      const plain = await world.claim()
      expect(plain).toHaveLength(2)
      const [gate] = await world.gate()
      await world.turn({ changes: [expandAll(gate!, [0, 1, 2], [{ key: `r:${run.id}`, cap: 3 }])] })
      const all = await world.store.listTasks({ runId: run.id, name: "each", limit: 9 })
      expect(all.map(({ parked }) => parked === null)).toEqual([true, false, false])
      expect(await world.claim()).toHaveLength(1)
      await world.turn({ changes: plain.map((claim) => world.ended(claim)) })
      expect(await world.claim()).toHaveLength(2)
    })

    it("does not bound the gate", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: { after: ["a"] }, ...tasks(2) }, { concurrency: 1 }))
      const [a] = await world.claim()
      expect((await world.turn({ changes: [world.ended(a!, "failed")], claim: 9, gate: 9 })).gateClaims).toHaveLength(1)
    })

    it("shared by runs passes to the next row when the first is cancelled", async () => {
      const world = await setup(open)
      const limits = [{ key: "k:shared", cap: 1 }]
      const start = async () => {
        const run = await world.start(workflow({ a: { if: "true" } }))
        const [gate] = await world.gate()
        await world.turn({ changes: [{ ...fence(gate!), kind: "enqueue", lane: WORK, limits }] })
        return run
      }
      await start()
      const [held] = await world.claim()
      const [second, third] = [await start(), await start()]
      expect(await world.claim()).toEqual([])
      await world.turn({ changes: [world.ended(held!)] }) // the second is in turn now
      await world.store.requestCancel(second.id, "cancel")
      const { claims } = await world.turn({ claim: 9 })
      expect(claims.map(({ runId }) => runId)).toEqual([third.id])
    })

    it("shared by runs passes to the next run when the first is paused", async () => {
      const world = await setup(open)
      const limits = [{ key: "k:shared", cap: 1 }]
      const start = async () => {
        const run = await world.start(workflow({ a: { if: "true" } }))
        const [gate] = await world.gate()
        await world.turn({ changes: [{ ...fence(gate!), kind: "enqueue", lane: WORK, limits }] })
        return run
      }
      await start()
      const [held] = await world.claim()
      const [second, third] = [await start(), await start()]
      expect(await world.claim()).toEqual([])
      await world.store.setPaused(second.id, true)
      const { claims } = await world.turn({ changes: [world.ended(held!)], claim: 9 })
      expect(claims.map(({ runId }) => runId)).toEqual([third.id])
      await world.store.setPaused(second.id, false)
      expect((await world.turn({ changes: [world.ended(claims[0]!)], claim: 9 })).claims).toMatchObject([{ runId: second.id }])
    })

    it("stays in use after a start that is reported separately", async () => {
      const world = await setup(open)
      await world.start(workflow(tasks(2), { concurrency: 1 }))
      const [first] = await world.claim()
      expect((await world.turn({ changes: [{ ...fence(first!), kind: "started", at: BEGIN }], claim: 9 })).claims).toEqual([])
    })

    it("of a concurrency_key is removed when no unfinished task is under it", async () => {
      const world = await setup(open)
      const start = async (key: string): Promise<RunRow> => {
        const run = await world.start(workflow({ a: { if: "true", concurrencyKey: "key" } }))
        await enqueue(world, key)
        return run
      }
      await start("ended")
      const [ended] = await world.claim()
      await start("full")
      await world.claim()
      const parked = await start("full")
      expect(await world.claim()).toEqual([])
      await start("ready")
      expect(await world.store.trimLimits(9)).toBe(0)
      await world.turn({ changes: [world.ended(ended!)] })
      expect([await world.store.trimLimits(9), await world.store.trimLimits(9)]).toEqual([1, 0])
      expect((await world.task(parked.id, "a")).parked).toMatchObject({ limit: "k:full" })
      await start("ended")
      await start("ended")
      expect(await world.claim()).toHaveLength(2)
    })

    it("of a concurrency_key that was removed is created again for a retried task", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true", concurrencyKey: "key", concurrency: 1 } }, { concurrency: 5 }))
      await enqueue(world, "removed")
      const [failed] = await world.claim()
      await world.turn({ changes: [world.ended(failed!, "failed")] })
      expect(await world.store.trimLimits(9)).toBe(1)
      const plan = planRetry(
        world.store.getLoadedVersion(run.versionId),
        await world.run(run.id),
        await world.store.listRowStates(run.id),
        {},
      )
      expect("reset" in plan && (await world.store.retryRun(run.id, plan.reset))).toBe(true)
      const [gate] = await world.gate()
      await world.turn({ changes: [{ ...fence(gate!), kind: "release" }] })
      await enqueue(world, "removed")
      expect(await world.claim()).toHaveLength(1)
      await world.store.requestCancel(run.id, "cancel")
      await world.turn()
    })

    it("of a concurrency_key may be removed while the gate has the retried task, which is then cancelled", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { if: "true", concurrencyKey: "key" } }))
      await enqueue(world, "removed")
      const [failed] = await world.claim()
      await world.turn({ changes: [world.ended(failed!, "failed")] })
      const plan = planRetry(
        world.store.getLoadedVersion(run.versionId),
        await world.run(run.id),
        await world.store.listRowStates(run.id),
        {},
      )
      expect("reset" in plan && (await world.store.retryRun(run.id, plan.reset))).toBe(true)
      expect(await world.store.trimLimits(9)).toBe(1)
      await world.store.requestCancel(run.id, "cancel")
      await world.turn()
      expect((await world.run(run.id)).status).toBe("cancelled")
    })
  })
}
