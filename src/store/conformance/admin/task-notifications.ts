// Notifications of tasks: which ends of which rows record them, and deadlines of tasks.

import { describe, expect, it } from "vitest"
import type { Change } from "../../../core/model/change.ts"
import { group, workflow } from "../../../core/testing.ts"
import type { NotifySpec } from "../../../core/model/workflow.ts"
import type { NotificationRow, NotificationStore } from "../../contract/notifications.ts"
import type { StatsStore } from "../../contract/stats.ts"
import type { Store, TaskClaim } from "../../contract/store.ts"
import { expandAll, fence, type Open, setup, type World } from "../world.ts"

type TestStore = Store & NotificationStore & StatsStore

const LEASE = { limit: 100, leaseMs: 5000 }

const notify: NotifySpec[] = [
  { on: ["success", "failure"], webhook: "https://a.test" },
  { on: ["failure", "cancel", "deadline"], slack: "https://b.test" },
]

const owed = async (world: World<TestStore>): Promise<Pick<NotificationRow, "kind" | "target" | "node" | "path">[]> =>
  (await world.store.claimNotifications(LEASE)).map(({ kind, target, node, path }) => ({ kind, target, node, path }))

/** Notifications about the row of a node. */
const about = (node: number, path = "") => ({
  success: [{ kind: "success", target: 0, node, path }],
  failed: [
    { kind: "failure", target: 0, node, path },
    { kind: "failure", target: 1, node, path },
  ],
  cancelled: [{ kind: "cancel", target: 1, node, path }],
})

const gather = (claim: TaskClaim, status: "success" | "failed"): Change => ({
  ...fence(claim),
  kind: "gather",
  status,
  output: { inline: [] },
})

export const taskNotificationTests = (open: Open<TestStore>): void => {
  describe("notifications of a task", () => {
    it.each(["success", "failed", "cancelled"] as const)(
      "that ended as %s are owed to those who asked for them",
      async (status) => {
        const world = await setup(open)
        await world.start(workflow({ a: {}, b: { notify }, c: { after: ["b"] } }))
        const claims = await world.claim()
        await world.turn({
          changes: claims.map((claim) => world.ended(claim, claim.node === 0 ? "failed" : status)),
          claim: 10,
        })
        expect(await owed(world)).toEqual(about(1)[status])
      },
    )

    it("are recorded by a turn that finishes a chain of successes", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { notify }, b: { after: ["a"], notify }, c: { after: ["b"] } }))
      const [a] = await world.claim()
      const [b] = (await world.turn({ changes: [world.ended(a!)], claim: 10 })).claims
      await world.turn({ changes: [world.ended(b!)], claim: 10 })
      expect(await owed(world)).toEqual([...about(0).success, ...about(1).success])
    })

    it("are recorded at its last attempt only", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: { notify } }))
      const [first] = await world.claim()
      await world.turn({ changes: [world.again(first!, 0)] })
      expect(await owed(world)).toEqual([])
      const [second] = await world.claim()
      await world.turn({ changes: [world.ended(second!, "failed")] })
      expect(await owed(world)).toEqual(about(0).failed)
    })

    it("are recorded for a fan-out as a whole, not for its instances", async () => {
      const world = await setup(open)
      await world.start(workflow({ each: { notify, fan: { foreach: { lit: [] }, reference: "x" } } }))
      const [container] = await world.gate()
      const { claims } = await world.turn({ changes: [expandAll(container!, [1, 2])], claim: 10 })
      await world.turn({ changes: claims.map((claim, i) => world.ended(claim, i === 0 ? "failed" : "success")) })
      expect(await owed(world)).toEqual([])
      const [ready] = await world.gate()
      await world.turn({ changes: [gather(ready!, "failed")] })
      expect(await owed(world)).toEqual(about(0).failed)
    })

    it("are recorded for a success of the cache, and not for a skipped task", async () => {
      const world = await setup(open)
      await world.start(workflow({ cached: { notify, gated: true }, skipped: { notify, gated: true } }))
      const [cached, skipped] = await world.gate()
      await world.turn({
        changes: [
          { ...fence(cached!), kind: "reuse", output: { inline: 1 } },
          { ...fence(skipped!), kind: "skip", skipReason: "waived", reason: "" },
        ],
      })
      expect(await owed(world)).toEqual(about(0).success)
    })

    it("are recorded for pending tasks of a cancelled run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: {}, b: { after: ["a"], notify } }))
      await world.store.requestCancel(run.id, "cancel")
      await world.turn()
      expect(await owed(world)).toEqual(about(1).cancelled)
    })

    it("are recorded for a hook", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, "on_exit.0": { notify } }))
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      const [hook] = await world.claim()
      await world.turn({ changes: [world.ended(hook!)] })
      expect(await owed(world)).toEqual(about(1).success)
    })

    it("are not recorded for an outcome that a person sets", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { notify }, b: {} }))
      await world.store.overrideOutcome({ runId: run.id, name: "a", path: "", status: "failed", reason: "by hand" })
      expect(await owed(world)).toEqual([])
    })

    it("are not recorded for a private run", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { notify, deadlineMs: 1000 } }), { private: true })
      const { claims } = await world.turn({ claim: 1, lanes: [`p:${run.id}:w`] })
      await world.turn({ changes: [world.ended(claims[0]!)] })
      expect(await world.store.nextNotificationMs()).toBeNull()
    })

    it("of its deadline are due that long after the start of the run, in groups too; without a target for the log", async () => {
      const world = await setup(open)
      await world.start(
        workflow({ a: { notify, deadlineMs: 1000 }, g: { ...group, deadlineMs: 2000 }, "g.b": { notify, deadlineMs: 3000 } }),
      )
      expect(await world.store.nextNotificationMs()).toBe(1000)
      world.clock.pass(3000)
      expect(await owed(world)).toEqual([
        { kind: "deadline", target: 1, node: 0, path: "" },
        { kind: "deadline", target: -1, node: 1, path: "" },
        { kind: "deadline", target: 1, node: 2, path: "" },
      ])
    })

    it("that could not be delivered name the task", async () => {
      const world = await setup(open)
      const run = await world.start(workflow({ a: { deadlineMs: 1000 } }))
      world.clock.pass(1000)
      const [late] = await world.store.claimNotifications(LEASE)
      await world.store.postponeNotification(late!, "a.test answered 500", 5000)
      expect(await world.store.notificationProblems(run.id)).toMatchObject([{ kind: "deadline", node: 0, path: "" }])
    })
  })
}
