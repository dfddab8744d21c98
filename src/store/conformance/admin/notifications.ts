// Notifications of runs, and how they are claimed.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import type { NotificationStore } from "../../contract/notifications.ts"
import type { Store } from "../../contract/store.ts"
import { type Open, setup } from "../world.ts"

const LEASE = { limit: 10, leaseMs: 5000 }

const telling: CompiledWorkflow = {
  ...workflow({ a: {} }),
  notify: [
    { on: ["success", "failure"], webhook: "https://a.test" },
    { on: ["failure", "deadline"], slack: "https://b.test" },
    { on: ["cancel"], webhook: "https://c.test" },
  ],
}

export const notificationTests = (open: Open<Store & NotificationStore>): void => {
  describe("notifications", () => {
    it.each([
      ["success", [["success", 0]]],
      [
        "failed",
        [
          ["failure", 0],
          ["failure", 1],
        ],
      ],
    ] as const)("of a run that ended as %s are owed to those who asked for them", async (status, owed) => {
      const world = await setup(open)
      const run = await world.start(telling)
      expect(await world.store.nextNotificationMs()).toBeNull()
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!, status)] })
      expect(await world.store.nextNotificationMs()).toBe(0)
      const claimed = await world.store.claimNotifications(LEASE)
      expect(claimed.map(({ kind, target }) => [kind, target])).toEqual(owed)
      expect(claimed.every(({ runId, tries }) => runId === run.id && tries === 1)).toBe(true)
    })

    it("are recorded for a cancelled run, also before its start", async () => {
      const world = await setup(open)
      const one = { ...telling, maxActiveRuns: 1 }
      await world.start(one)
      const waiting = await world.start(one)
      await world.store.requestCancel(waiting.id, "cancel")
      await world.turn()
      expect(await world.store.claimNotifications(LEASE)).toMatchObject([{ runId: waiting.id, kind: "cancel", target: 2 }])
    })

    it("are not recorded for a private run", async () => {
      const world = await setup(open)
      const run = await world.start({ ...telling, deadlineMs: 1000 }, { private: true })
      const { claims } = await world.turn({ claim: 1, lanes: [`p:${run.id}:w`] })
      await world.turn({ changes: [world.ended(claims[0]!)] })
      expect(await world.store.nextNotificationMs()).toBeNull()
    })

    it("of a deadline are due that long after the run's start", async () => {
      const world = await setup(open)
      await world.start({ ...telling, deadlineMs: 60_000 })
      expect(await world.store.nextNotificationMs()).toBe(60_000)
      expect(await world.store.claimNotifications(LEASE)).toEqual([])
      world.clock.pass(60_000)
      expect(await world.store.claimNotifications(LEASE)).toMatchObject([{ kind: "deadline", target: 1 }])
    })

    it("of a deadline without a target are written for the log", async () => {
      const world = await setup(open)
      await world.start({ ...workflow({ a: {} }), deadlineMs: 1000 })
      world.clock.pass(1000)
      expect(await world.store.claimNotifications(LEASE)).toMatchObject([{ kind: "deadline", target: -1 }])
    })

    it("that were claimed are hidden until their lease ends or they are postponed", async () => {
      const world = await setup(open)
      await world.start({ ...workflow({ a: {} }), deadlineMs: 1000 })
      world.clock.pass(1000)
      const [notice] = await world.store.claimNotifications(LEASE)
      expect(await world.store.claimNotifications(LEASE)).toEqual([])
      world.clock.pass(5000)
      expect(await world.store.claimNotifications(LEASE)).toEqual([{ ...notice, tries: 2 }])
      await world.store.postponeNotification(notice!, "a.test answered 500", 60_000)
      expect(await world.store.nextNotificationMs()).toBe(60_000)
    })

    it("that could not be delivered keep their last problem until they are delivered", async () => {
      const world = await setup(open)
      const run = await world.start({ ...workflow({ a: {} }), deadlineMs: 1000 })
      world.clock.pass(1000)
      const [notice] = await world.store.claimNotifications(LEASE)
      expect(await world.store.notificationProblems(run.id)).toEqual([])
      await world.store.postponeNotification(notice!, "a.test answered 500", 5000)
      world.clock.pass(5000)
      const [again] = await world.store.claimNotifications(LEASE)
      await world.store.postponeNotification(again!, "a.test answered 503", 5000)
      const problem = { ...again, problem: "a.test answered 503", at: iso(world.clock.now()), gaveUp: false }
      expect(await world.store.notificationProblems(run.id)).toEqual([problem])
      await world.store.removeNotifications([notice!.id])
      expect(await world.store.notificationProblems(run.id)).toEqual([])
    })

    it("that were given up keep their problem until their run is removed", async () => {
      const world = await setup(open)
      const run = await world.start(telling)
      const [a] = await world.claim()
      await world.turn({ changes: [world.ended(a!)] })
      const [notice] = await world.store.claimNotifications(LEASE)
      await world.store.postponeNotification(notice!, "a.test answered 500", null)
      expect(await world.store.nextNotificationMs()).toBeNull()
      expect(await world.store.notificationProblems(run.id)).toMatchObject([{ kind: "success", target: 0, gaveUp: true }])
      await world.store.removeRun(run.id, 100)
      expect(await world.store.notificationProblems(run.id)).toEqual([])
    })

    it("that were delivered are removed", async () => {
      const world = await setup(open)
      await world.start({ ...workflow({ a: {} }), deadlineMs: 1000 })
      world.clock.pass(1000)
      const claimed = await world.store.claimNotifications(LEASE)
      await world.store.removeNotifications(claimed.map(({ id }) => id))
      expect(await world.store.nextNotificationMs()).toBeNull()
    })
  })
}
