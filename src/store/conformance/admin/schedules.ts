// Schedules: due ticks, one run per tick, pause and resume, and runs that queue behind each other.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { workflow } from "../../../core/testing.ts"
import type { ScheduleSpec } from "../../../core/model/workflow.ts"
import type { Catalog, ScheduleRow, Tick } from "../../contract/catalog.ts"
import type { NewRun, Store } from "../../contract/store.ts"
import { BEGIN, type Open, setup, type World } from "../world.ts"

const MINUTE = 60_000
const spec = (change: Partial<ScheduleSpec> = {}): ScheduleSpec => ({
  cron: "* * * * *",
  timezone: "UTC",
  catchup: "none",
  overlap: "allow",
  ...change,
})
const minute = (n: number): string => iso(BEGIN + n * MINUTE)

type Scheduled = World<Store & Catalog>

export const scheduleTests = (open: Open<Store & Catalog>): void => {
  const deploy = (world: Scheduled, schedules: ScheduleSpec[], nextAt: (string | null)[], name = "test") =>
    world.store.putWorkflow({
      compiled: workflow({ a: {} }, { name, schedules }),
      hash: JSON.stringify(schedules),
      source: "",
      deploy: true,
      nextAt,
    })

  const tick = (world: Scheduled, row: ScheduleRow, run: Partial<NewRun> | null = {}): Tick => ({
    scheduleId: row.id,
    expected: row.nextAt!,
    tick: row.nextAt!,
    nextAt: iso(Date.parse(row.nextAt!) + MINUTE),
    skipped: run === null ? "run 1 was active" : null,
    run:
      run === null
        ? null
        : world.newRun(row as never, {
            trigger: "schedule",
            logicalDate: row.nextAt,
            scheduleId: row.id,
            timezone: row.spec.timezone,
            ...run,
          }),
  })

  const all = (world: Scheduled, workflow?: string) =>
    world.store.listSchedules({ limit: 99, ...(workflow !== undefined && { workflow }) })

  describe("schedules", () => {
    it("are created and removed with the deployed version", async () => {
      const world = await setup(open)
      const { versionId, workflowId } = await deploy(world, [spec(), spec({ cron: "0 2 * * *" })], [minute(1), minute(120)])
      await deploy(world, [spec()], [minute(1)], "other")
      expect(await all(world, "test")).toEqual([
        {
          id: expect.any(Number),
          workflowId,
          workflow: "test",
          versionId,
          position: 0,
          spec: spec(),
          paused: false,
          nextAt: minute(1),
          lastTickAt: null,
        },
        expect.objectContaining({ position: 1, spec: spec({ cron: "0 2 * * *" }), nextAt: minute(120) }),
      ])
      const rows = await all(world)
      expect(rows.map(({ workflow, position }) => [workflow, position])).toEqual([
        ["test", 0],
        ["test", 1],
        ["other", 0],
      ])
      expect(await world.store.listSchedules({ after: rows[0]!.id, limit: 1 })).toEqual([rows[1]])
      await deploy(world, [spec()], [minute(5)])
      expect(await all(world, "test")).toHaveLength(1)
      await deploy(world, [], [])
      expect(await all(world, "test")).toEqual([])
      await world.store.removeWorkflow("other")
      expect(await all(world)).toEqual([])
    })

    it("are due at their time, earliest first", async () => {
      const world = await setup(open)
      expect(await world.store.nextTickMs()).toBeNull()
      await deploy(world, [spec(), spec({ cron: "1 1 1 1 *" }), spec()], [minute(2), null, minute(1)])
      expect(await world.store.nextTickMs()).toBe(MINUTE)
      expect(await world.store.dueSchedules(9)).toEqual([])
      world.clock.pass(2 * MINUTE)
      expect((await world.store.dueSchedules(9)).map(({ position }) => position)).toEqual([2, 0])
      expect(await world.store.dueSchedules(1)).toHaveLength(1)
      expect(await world.store.nextTickMs()).toBe(0)
    })

    it("know the run of their last tick that created one", async () => {
      const world = await setup(open)
      await deploy(world, [spec()], [minute(1)])
      const [row] = await all(world)
      expect(await world.store.lastTickRun(row!)).toBeNull()
      world.clock.pass(2 * MINUTE)
      const [fired] = await world.store.fireTicks([tick(world, row!)])
      const [next] = await all(world)
      await world.store.fireTicks([tick(world, next!, null)])
      expect(await world.store.lastTickRun(row!)).toBe(fired!.run!.id)
    })

    it("fire the ticks that were planned together, or none of them when another server has fired the first", async () => {
      const world = await setup(open)
      await deploy(world, [spec()], [minute(1)])
      world.clock.pass(2 * MINUTE)
      const [row] = await all(world)
      const planned = [tick(world, row!, null), tick(world, { ...row!, nextAt: minute(2) })]
      const [other] = await world.store.fireTicks([tick(world, row!)])
      expect(other).toMatchObject({ fired: true })
      expect(await world.store.fireTicks(planned)).toEqual([
        { fired: false, run: null },
        { fired: false, run: null },
      ])
      expect(await all(world)).toMatchObject([{ nextAt: minute(2) }])
      const [due] = await all(world)
      expect(await world.store.fireTicks([tick(world, due!)])).toMatchObject([{ fired: true, run: { logicalDate: minute(2) } }])
    })

    it("are ahead when their last tick is in the future, and move to an earlier tick unless another server has moved them", async () => {
      const world = await setup(open)
      await deploy(world, [spec(), spec()], [minute(1), minute(1)])
      world.clock.pass(MINUTE)
      const [first] = await all(world)
      await world.store.fireTicks([tick(world, first!)])
      expect(await world.store.schedulesAhead()).toEqual([])
      world.clock.pass(-MINUTE)
      expect(await world.store.currentTime()).toBe(world.clock.now())
      const ahead = await world.store.schedulesAhead()
      expect(ahead).toMatchObject([{ id: first!.id, nextAt: minute(2), lastTickAt: minute(1) }])
      const move = { scheduleId: first!.id, expected: minute(2), nextAt: minute(1) }
      await world.store.moveSchedules([{ ...move, expected: minute(3) }])
      expect(await all(world)).toMatchObject([{ nextAt: minute(2) }, { nextAt: minute(1) }])
      await world.store.moveSchedules([move])
      expect(await all(world)).toMatchObject([{ nextAt: minute(1) }, { nextAt: minute(1) }])
      expect(await world.store.schedulesAhead()).toEqual([])
      const [moved] = await all(world)
      world.clock.pass(MINUTE)
      expect(await world.store.fireTicks([tick(world, moved!)])).toEqual([{ fired: false, run: null }])
      expect((await all(world))[0]).toMatchObject({ nextAt: minute(2) })
    })

    it("keep their next tick when deployed again, unless their times changed", async () => {
      const world = await setup(open)
      await deploy(world, [spec(), spec()], [minute(1), minute(1)])
      const [first] = await all(world)
      world.clock.pass(MINUTE)
      await world.store.fireTicks([tick(world, first!)])
      const changed = [spec({ overlap: "skip" }), spec({ timezone: "Europe/Berlin" })]
      await deploy(world, changed, [minute(9), minute(9)])
      expect(await all(world)).toMatchObject([
        { id: first!.id, nextAt: minute(2), lastTickAt: minute(1), spec: { overlap: "skip" } },
        { nextAt: minute(9), lastTickAt: null },
      ])
    })

    it("stop while their workflow is paused and continue with a later tick", async () => {
      const world = await setup(open)
      await deploy(world, [spec()], [minute(1)])
      expect(await world.store.setWorkflowPaused({ name: "test", paused: true, nextAt: [] })).toBe(true)
      world.clock.pass(5 * MINUTE)
      const [row] = await all(world)
      expect(row).toMatchObject({ paused: true })
      expect(await world.store.getWorkflow("test")).toMatchObject({ paused: true })
      expect(await world.store.dueSchedules(9)).toEqual([])
      expect(await world.store.nextTickMs()).toBeNull()
      expect(await world.store.fireTicks([tick(world, row!)])).toEqual([{ fired: false, run: null }])
      await deploy(world, [spec({ cron: "*/2 * * * *" })], [minute(6)])
      expect(await world.store.nextTickMs()).toBeNull()
      expect(await world.store.setWorkflowPaused({ name: "test", paused: false, nextAt: [minute(6)] })).toBe(true)
      expect(await world.store.nextTickMs()).toBe(MINUTE)
      expect(await world.store.setWorkflowPaused({ name: "nobody", paused: true, nextAt: [] })).toBe(false)
    })

    it("show the next tick of their workflow", async () => {
      const world = await setup(open)
      await deploy(world, [spec(), spec({ cron: "0 2 * * *" })], [minute(7), minute(3)])
      const next = async () => (await world.store.listWorkflows({ limit: 1, runs: 0 }))[0]!.nextAt
      expect(await next()).toBe(minute(3))
      await world.store.setWorkflowPaused({ name: "test", paused: true, nextAt: [] })
      expect(await next()).toBeNull()
    })
  })

  describe("a tick", () => {
    it("creates one run and advances its schedule", async () => {
      const world = await setup(open)
      await deploy(world, [spec({ timezone: "Europe/Berlin" })], [minute(1)])
      const [row] = await all(world)
      world.clock.pass(MINUTE)
      const [fired, again] = await world.store.fireTicks([tick(world, row!), tick(world, row!)])
      expect(fired).toMatchObject({ fired: true, run: { trigger: "schedule", status: "running", logicalDate: minute(1) } })
      expect(again).toEqual({ fired: false, run: null })
      expect(await all(world)).toMatchObject([{ nextAt: minute(2), lastTickAt: minute(1) }])
      const [claim] = await world.claim()
      expect(claim!.run).toMatchObject({ logicalDate: minute(1), timezone: "Europe/Berlin" })
      expect(await world.store.listRuns({ limit: 9 })).toHaveLength(1)
    })

    it("that is skipped is listed with the reason, newest first", async () => {
      const world = await setup(open)
      await deploy(world, [spec(), spec({ cron: "0 2 * * *" })], [minute(1), minute(1)])
      const [row, other] = await all(world)
      const next = async (run: null | undefined) => {
        world.clock.pass(MINUTE)
        await world.store.fireTicks([tick(world, (await all(world))[0]!, run)])
      }
      for (const run of [null, undefined, null, null] as const) await next(run)
      const skipped = await world.store.listSkippedTicks(row!, 2)
      expect(skipped).toEqual([minute(4), minute(3)].map((at) => ({ tick: at, reason: "run 1 was active" })))
      expect((await world.store.listSkippedTicks(row!, 9)).map((each) => each.tick)).toEqual([minute(4), minute(3), minute(1)])
      expect(await world.store.listSkippedTicks(other!, 9)).toEqual([])
    })

    it("continues with the first firing of a new schedule, or of one with a new start", async () => {
      const world = await setup(open)
      const put = (schedules: ScheduleSpec[]) =>
        world.store.putWorkflow({
          compiled: workflow({ a: {} }, { name: "test", schedules }),
          hash: JSON.stringify(schedules),
          source: "",
          deploy: true,
          nextAt: [minute(5)],
          firstAt: [minute(1)],
        })
      const nextAt = async () => (await all(world))[0]!.nextAt
      await put([spec()])
      expect(await nextAt()).toBe(minute(1))
      await put([spec({ cron: "*/5 * * * *" })])
      expect(await nextAt()).toBe(minute(5))
      await put([spec({ cron: "*/5 * * * *", start: "2026-01-01" })])
      expect(await nextAt()).toBe(minute(1))
    })

    it("is not fired again after its workflow was removed and deployed again", async () => {
      const world = await setup(open)
      await deploy(world, [spec()], [minute(1)])
      world.clock.pass(MINUTE)
      await world.store.fireTicks([tick(world, (await all(world))[0]!)])
      await world.store.removeWorkflow("test")
      await deploy(world, [spec()], [minute(1)])
      const [row] = await all(world)
      expect(await world.store.fireTicks([tick(world, row!)])).toEqual([{ fired: false, run: null }])
      expect(await all(world)).toMatchObject([{ nextAt: minute(2) }])
      expect(await world.store.listRuns({ limit: 9 })).toHaveLength(1)
    })

    it("that is skipped counts as fired", async () => {
      const world = await setup(open)
      await deploy(world, [spec()], [minute(1)])
      const [row] = await all(world)
      world.clock.pass(MINUTE)
      expect(await world.store.fireTicks([tick(world, row!, null)])).toEqual([{ fired: true, run: null }])
      expect(await world.store.fireTicks([tick(world, row!)])).toEqual([{ fired: false, run: null }])
      expect(await all(world)).toMatchObject([{ nextAt: minute(2), lastTickAt: minute(1) }])
    })

    it("of the same minute of another schedule has its own run", async () => {
      const world = await setup(open)
      await deploy(world, [spec(), spec()], [minute(1), minute(1)])
      world.clock.pass(MINUTE)
      const fired = await world.store.fireTicks((await all(world)).map((row) => tick(world, row)))
      expect(fired.map(({ run }) => run !== null)).toEqual([true, true])
    })
  })

  describe("runs of one schedule", () => {
    it("that are unfinished are listed oldest first", async () => {
      const world = await setup(open)
      await deploy(world, [spec()], [minute(1)])
      const [row] = await all(world)
      const fire = async (at: string) => (await world.store.fireTicks([tick(world, { ...row!, nextAt: at })]))[0]!.run!.id
      const first = await fire(minute(1))
      const second = await fire(minute(2))
      await world.start(workflow({ a: {} }))
      const active = async () => (await world.store.activeRunsOf(row!.id)).map(({ id }) => id)
      expect(await active()).toEqual([first, second])
      const [claim] = await world.claim(1)
      await world.turn({ changes: [world.ended(claim!)] })
      expect(await active()).toEqual([second])
    })

    it("queue behind each other only with `waitForSchedule`", async () => {
      const world = await setup(open)
      await deploy(world, [spec({ overlap: "queue" })], [minute(1)])
      const [row] = await all(world)
      const fire = async (at: string) =>
        (await world.store.fireTicks([tick(world, { ...row!, nextAt: at }, { waitForSchedule: true })]))[0]!.run!
      const runs = [await fire(minute(1)), await fire(minute(2)), await fire(minute(3))]
      expect(runs.map(({ status }) => status)).toEqual(["running", "pending", "pending"])
      expect((await world.start(workflow({ a: {} }))).status).toBe("running")
      const states = async () => (await Promise.all(runs.map(({ id }) => world.run(id)))).map(({ status }) => status)
      const [first, byHand] = await world.claim()
      await world.turn({ changes: [world.ended(byHand!)] })
      expect(await states()).toEqual(["running", "pending", "pending"])
      await world.turn({ changes: [world.ended(first!)] })
      expect(await states()).toEqual(["success", "running", "pending"])
      await world.store.requestCancel(runs[1]!.id, "cancel")
      await world.turn()
      expect(await states()).toEqual(["success", "cancelled", "running"])
    })

    it("also queue under max_active_runs", async () => {
      const world = await setup(open)
      const schedules = [spec({ overlap: "queue" })]
      const compiled = workflow({ a: {} }, { schedules, maxActiveRuns: 2 })
      const version = await world.store.putWorkflow({ compiled, hash: "h", source: "", deploy: true, nextAt: [minute(1)] })
      const [row] = await all(world)
      const queued = () => world.newRun(version, { scheduleId: row!.id, waitForSchedule: true })
      const made = await world.store.createRuns([queued(), queued(), world.newRun(version), world.newRun(version)])
      expect(made.map(({ run }) => run.status)).toEqual(["running", "pending", "running", "pending"])
      const [, second] = await world.claim()
      await world.turn({ changes: [world.ended(second!)] })
      const states = (await Promise.all(made.map(({ run }) => world.run(run.id)))).map(({ status }) => status)
      expect(states).toEqual(["running", "pending", "success", "running"])
    })
  })
}
