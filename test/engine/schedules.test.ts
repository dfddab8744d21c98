import { describe, expect, it } from "vitest"
import type { Clock } from "../../src/core/model/ports.ts"
import { deploy, nextFiringsOf } from "../../src/engine/services/deploy.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { explain } from "../../src/engine/services/explain.ts"
import { Scheduler } from "../../src/engine/services/scheduler.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import type { ScheduleRow } from "../../src/store/contract/catalog.ts"
import type { RunRow } from "../../src/store/contract/store.ts"
import { fail, setup as setupEngine, type Script } from "./setup.ts"

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** The virtual clock begins at 2026-01-01T00:00:00Z, a Thursday. */
const setup = async (scripts: { [task: string]: Script } = {}) => {
  const fixture = await setupEngine(scripts)
  const { clock, engine, folder } = fixture
  // Runs share an existing folder: creating one takes real time, for which the virtual clock does not wait.
  let rejected: string | null = null
  const store: typeof fixture.store = {
    ...fixture.store,
    fireTicks: async (ticks) => {
      const schedules = await fixture.store.listSchedules({ limit: 1000 })
      const isRejected = ({ id, workflow }: ScheduleRow): boolean =>
        workflow === rejected && ticks.some(({ scheduleId }) => scheduleId === id)
      if (schedules.some(isRejected)) throw new Error("the store rejects it")
      return fixture.store.fireTicks(ticks.map((tick) => ({ ...tick, run: tick.run && { ...tick.run, workingDir: folder } })))
    },
  }
  const problems: string[] = []
  let started = 0
  let failingCancels = 0
  const newScheduler = (own: Clock = clock, seen: Partial<typeof store> = {}): Scheduler =>
    new Scheduler({
      store: { ...store, ...seen },
      evaluator: inlineEvaluator,
      clock: own,
      random: seededRandom(++started + 100),
      log: {
        info: () => {},
        warn: (fields) => void problems.push(JSON.stringify(fields)),
        error: (fields) => void problems.push(JSON.stringify(fields)),
      },
      cancel: async (runId) => {
        if (failingCancels-- > 0) throw new Error("the store does not respond")
        await engine.cancel(runId)
      },
      wake: () => engine.wake(),
    })
  return {
    ...fixture,
    problems,
    newScheduler,
    failCancels: (count: number) => void (failingCancels = count),
    rejectTicksOf: (workflow: string | null) => void (rejected = workflow),
    start: (own?: Clock): Scheduler => {
      const scheduler = newScheduler(own)
      scheduler.start()
      return scheduler
    },
    deploy: async (schedule: string, rest = "", name = "tick") => {
      const parsed = parseDefinition(`name: ${name}\nschedule: ${schedule}\n${rest}\ntasks: { t: { command: x } }`)
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
      await deploy(store, parsed)
      return parsed.workflow
    },
    /** Oldest first. */
    runs: async (name = "tick") => (await store.listRuns({ workflow: name, limit: 1000 })).toReversed(),
    ticks: async (name = "tick") =>
      (await store.listRuns({ workflow: name, limit: 1000 })).map((run) => run.logicalDate!.slice(11, 19)).toSorted(),
  }
}

describe("a schedule", () => {
  it("creates one run per tick, whose params can read the tick", async () => {
    const fixture = await setup()
    await fixture.deploy(
      '{ cron: "*/10 * * * *", timezone: America/New_York, params: { day: "${{ run.date }}" } }',
      "params: { day: { type: string, default: none } }",
    )
    fixture.start()
    await fixture.pass(35 * MINUTE)
    const runs = await fixture.runs()
    expect(runs.map(({ logicalDate, createdAt }) => [logicalDate, createdAt])).toEqual(
      ["00:10", "00:20", "00:30"].map((time) => [`2026-01-01T${time}:00.000Z`, `2026-01-01T${time}:00.000Z`]),
    )
    expect(
      runs.every(
        ({ trigger, params, status }) => trigger === "schedule" && params["day"] === "2025-12-31" && status === "success",
      ),
    ).toBe(true)
  })

  it("may have seconds", async () => {
    const fixture = await setup()
    await fixture.deploy('"*/20 * * * * *"')
    fixture.start()
    await fixture.pass(MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["00:00:20", "00:00:40", "00:01:00"])
  })

  it("may be one of several schedules of a workflow", async () => {
    const fixture = await setup()
    await fixture.deploy('[{ cron: "0 * * * *" }, { cron: "30 * * * *" }]')
    fixture.start()
    await fixture.pass(2 * HOUR + 1)
    expect(await fixture.ticks()).toEqual(["00:30:00", "01:00:00", "01:30:00", "02:00:00"])
  })

  it("fires each tick once for several schedulers", async () => {
    const fixture = await setup()
    await fixture.deploy('"* * * * *"')
    for (let i = 0; i < 3; i++) fixture.start()
    await fixture.pass(5 * MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["00:01:00", "00:02:00", "00:03:00", "00:04:00", "00:05:00"])
  })

  it("fires each tick once across restarts", async () => {
    const fixture = await setup()
    await fixture.deploy('{ cron: "* * * * *", catchup: all }')
    for (let i = 0; i < 6; i++) {
      const scheduler = fixture.start()
      await fixture.pass(30_000)
      void scheduler.stop()
    }
    expect(await fixture.ticks()).toEqual(["00:01:00", "00:02:00"])
  })

  it.each([
    ["behind", -5000],
    ["an hour ahead of", HOUR],
  ])("fires when the local clock is %s the clock of the store", async (_, ms) => {
    const fixture = await setup()
    await fixture.deploy('{ cron: "* * * * *", catchup: all }')
    fixture.start({
      now: () => fixture.clock.now() + ms,
      monotonic: () => fixture.clock.monotonic(),
      after: (delay, fn) => fixture.clock.after(delay, fn),
    })
    await fixture.pass(2 * MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["00:01:00", "00:02:00"])
  })

  it("fires within a minute of its tick when the clock is set forward during a long wait", async () => {
    const fixture = await setup()
    await fixture.deploy('"0 2 * * *"')
    fixture.start()
    await fixture.pass(MINUTE)
    fixture.clock.stepTimeOfDay(2 * HOUR)
    await fixture.pass(MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["02:00:00"])
  })

  it("goes on with the next tick after the clock was ahead and is set back, and fires no tick twice", async () => {
    const fixture = await setup()
    await fixture.deploy('"*/10 * * * *"')
    fixture.start()
    fixture.clock.stepTimeOfDay(HOUR)
    await fixture.pass(MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["01:00:00"])
    fixture.clock.stepTimeOfDay(-HOUR)
    await fixture.pass(HOUR)
    expect(await fixture.ticks()).toEqual(["00:10:00", "00:20:00", "00:30:00", "00:40:00", "00:50:00", "01:00:00"])
  })

  it("does not fire while its workflow is paused, and does not catch up on that time", async () => {
    const fixture = await setup()
    const workflow = await fixture.deploy('{ cron: "* * * * *", catchup: all }')
    const pause = (paused: boolean) =>
      fixture.store.setWorkflowPaused({ name: "tick", paused, nextAt: nextFiringsOf(workflow, fixture.clock.now()) })
    const scheduler = fixture.start()
    await fixture.pass(MINUTE + 1)
    await pause(true)
    scheduler.wake()
    await fixture.pass(5 * MINUTE)
    await pause(false)
    scheduler.wake()
    await fixture.pass(MINUTE)
    expect(await fixture.ticks()).toEqual(["00:01:00", "00:07:00"])
  })

  it("fires although another schedule of the batch cannot be fired, which is logged and tried again", async () => {
    const fixture = await setup()
    await fixture.deploy('"* * * * *"')
    await fixture.deploy('"* * * * *"', "", "broken")
    fixture.rejectTicksOf("broken")
    fixture.start()
    await fixture.pass(2 * MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["00:01:00", "00:02:00"])
    expect(fixture.problems[0]).toContain("schedule 1 of broken: the store rejects it")
    fixture.rejectTicksOf(null)
    await fixture.pass(2000)
    expect(await fixture.ticks("broken")).toEqual(["00:02:00"])
  })

  it("whose params are invalid logs the problem, creates no run and fires again at the next tick", async () => {
    const fixture = await setup()
    await fixture.deploy(
      "{ cron: \"* * * * *\", params: { n: \"${{ run.logical_date.endsWith('00:01:00.000Z') ? 'x' : '2' }}\" } }",
      "params: { n: { type: string, enum: ['2'], default: '2' } }",
    )
    fixture.start()
    await fixture.pass(2 * MINUTE + 1)
    expect(await fixture.ticks()).toEqual(["00:02:00"])
    expect(fixture.problems).toHaveLength(1)
  })

  it("does not fire after its end", async () => {
    const fixture = await setup()
    await fixture.deploy('{ cron: "* * * * *", end: 2026-01-01T00:03:00Z }')
    fixture.start()
    await fixture.pass(HOUR)
    expect(await fixture.ticks()).toEqual(["00:01:00", "00:02:00"])
    expect(await fixture.store.nextTickMs()).toBeNull()
  })
})

describe("missed ticks", () => {
  it.each([
    ["none", []],
    ["latest", ["05:00:00"]],
    ["all", ["01:00:00", "02:00:00", "03:00:00", "04:00:00", "05:00:00"]],
  ])("are caught up on according to catchup: %s", async (catchup, caughtUp) => {
    const fixture = await setup()
    await fixture.deploy(`{ cron: "0 * * * *", catchup: ${catchup} }`)
    await fixture.pass(5 * HOUR + 30 * MINUTE)
    fixture.start()
    await fixture.pass(1000)
    expect(await fixture.ticks()).toEqual(caughtUp)
    await fixture.pass(HOUR)
    expect(await fixture.ticks()).toEqual([...caughtUp, "06:00:00"])
  })

  it("are recorded as skipped without catch-up", async () => {
    const fixture = await setup()
    await fixture.deploy('"0 * * * *"')
    await fixture.pass(2 * HOUR + 30 * MINUTE)
    fixture.start()
    await fixture.pass(1000)
    const [schedule] = await fixture.store.listSchedules({ limit: 1 })
    expect(await fixture.store.listSkippedTicks(schedule!, 9)).toEqual([
      { tick: "2026-01-01T02:00:00.000Z", reason: "no server was running at that time (catchup: none)" },
    ])
  })

  it("run in any case when they are at most a minute late", async () => {
    const fixture = await setup()
    await fixture.deploy('"0 * * * *"')
    await fixture.pass(HOUR + 59_000)
    fixture.start()
    await fixture.pass(500)
    expect(await fixture.ticks()).toEqual(["01:00:00"])
  })

  it("count from a past start of a new schedule with catch-up all, by the days of its time zone", async () => {
    const fixture = await setup()
    await fixture.deploy('{ cron: "0 6 * * *", timezone: Asia/Tokyo, catchup: all, start: 2025-12-29 }')
    await fixture.deploy('{ cron: "0 6 * * *", catchup: latest, start: 2025-12-29 }', "", "latest")
    fixture.start()
    await fixture.pass(1000)
    const days = async (name: string) =>
      (await fixture.runs(name)).map(({ logicalDate }) => logicalDate!.slice(0, 13)).toSorted()
    expect(await days("tick")).toEqual(["2025-12-28T21", "2025-12-29T21", "2025-12-30T21", "2025-12-31T21"])
    expect(await days("latest")).toEqual([])
  })

  it("are not counted from the start again when the times of a schedule change, but are when its start changes", async () => {
    const fixture = await setup()
    const deployAt = (cron: string, start: string) => fixture.deploy(`{ cron: "${cron}", catchup: all, start: ${start} }`)
    await deployAt("0 6 * * *", "2025-12-31")
    fixture.start()
    await fixture.pass(1000)
    await deployAt("0 7 * * *", "2025-12-31")
    await fixture.pass(MINUTE)
    expect(await fixture.ticks()).toEqual(["06:00:00"])
    await deployAt("0 7 * * *", "2025-12-30")
    await fixture.pass(MINUTE)
    expect(await fixture.ticks()).toEqual(["06:00:00", "07:00:00", "07:00:00"])
  })

  it("are limited to the newest hundred", async () => {
    const fixture = await setup()
    await fixture.deploy('{ cron: "* * * * *", catchup: all }')
    await fixture.pass(300 * MINUTE)
    fixture.start()
    await fixture.pass(1000)
    const ticks = await fixture.ticks()
    expect([ticks.length, ticks[0], ticks.at(-1)]).toEqual([100, "03:21:00", "05:00:00"])
  })
})

describe("a tick while an earlier run of the schedule is active", () => {
  /** Runs start every minute and take two and a half. */
  const slow: Script = async (_, { sleep }) => {
    await sleep(2.5 * MINUTE)
    return null
  }
  const overlapping = async (overlap: string) => {
    const fixture = await setup({ t: slow })
    await fixture.deploy(`{ cron: "* * * * *", overlap: ${overlap}, end: 2026-01-01T00:05:00Z }`)
    fixture.start()
    await fixture.pass(HOUR)
    return (await fixture.runs()).map(({ logicalDate, startedAt, status }) => [
      logicalDate!.slice(14, 16),
      startedAt?.slice(14, 19),
      status,
    ])
  }

  it("starts beside it with overlap: allow", async () => {
    expect(await overlapping("allow")).toEqual([
      ["01", "01:00", "success"],
      ["02", "02:00", "success"],
      ["03", "03:00", "success"],
      ["04", "04:00", "success"],
    ])
  })

  it("is skipped with overlap: skip", async () => {
    expect(await overlapping("skip")).toEqual([
      ["01", "01:00", "success"],
      ["04", "04:00", "success"],
    ])
  })

  it("is recorded with the reason when it is skipped", async () => {
    const fixture = await setup({ t: slow })
    await fixture.deploy('{ cron: "* * * * *", overlap: skip, end: 2026-01-01T00:05:00Z }')
    fixture.start()
    await fixture.pass(HOUR)
    const [first] = await fixture.runs()
    const [schedule] = await fixture.store.listSchedules({ limit: 1 })
    expect(await fixture.store.listSkippedTicks(schedule!, 9)).toEqual(
      ["03", "02"].map((minute) => ({
        tick: `2026-01-01T00:${minute}:00.000Z`,
        reason: `run ${first!.id} was active (overlap: skip)`,
      })),
    )
  })

  it("waits for it with overlap: queue", async () => {
    expect(await overlapping("queue")).toEqual([
      ["01", "01:00", "success"],
      ["02", "03:30", "success"],
      ["03", "06:00", "success"],
      ["04", "08:30", "success"],
    ])
  })

  it("cancels and replaces it with overlap: cancel", async () => {
    expect(await overlapping("cancel")).toEqual([
      ["01", "01:00", "cancelled"],
      ["02", "02:00", "cancelled"],
      ["03", "03:00", "cancelled"],
      ["04", "04:00", "success"],
    ])
  })
})

it("a run that began before the clock was set back is replaced with overlap: cancel", async () => {
  const fixture = await setup({
    t: async (_, { sleep }) => {
      await sleep(24 * HOUR)
      return null
    },
  })
  await fixture.deploy('{ cron: "*/10 * * * *", overlap: cancel }')
  fixture.start()
  fixture.clock.stepTimeOfDay(HOUR)
  await fixture.pass(MINUTE + 1)
  fixture.clock.stepTimeOfDay(-HOUR)
  await fixture.pass(15 * MINUTE)
  expect((await fixture.runs()).map(({ logicalDate, status }) => [logicalDate!.slice(11, 16), status])).toEqual([
    ["00:10", "running"],
    ["01:00", "cancelled"],
  ])
})

it("a run is replaced with overlap: cancel although cancelling it fails at first, and the other schedules of the batch fire", async () => {
  const fixture = await setup({ t: async (_, { sleep }) => (await sleep(10 * MINUTE), null) })
  const schedule = '{ cron: "*/5 * * * *", overlap: cancel, end: 2026-01-01T00:11:00Z }'
  for (const name of ["a", "b"]) await fixture.deploy(schedule, "", name)
  fixture.start()
  await fixture.pass(6 * MINUTE)
  fixture.failCancels(3)
  await fixture.pass(HOUR)
  for (const name of ["a", "b"]) {
    expect((await fixture.runs(name)).map(({ status }) => status)).toEqual(["cancelled", "success"])
  }
})

it("a run is replaced with overlap: cancel although the server that fires the tick dies meanwhile", async () => {
  const fixture = await setup({ t: async (_, { sleep }) => (await sleep(10 * MINUTE), null) })
  await fixture.deploy('{ cron: "*/5 * * * *", overlap: cancel, end: 2026-01-01T00:11:00Z }')
  const dying = fixture.newScheduler(fixture.clock, {
    activeRunsOf: (id) =>
      fixture.clock.now() < Date.UTC(2026, 0, 1, 0, 9) ? fixture.store.activeRunsOf(id) : new Promise(() => {}),
  })
  dying.start()
  await fixture.pass(10 * MINUTE + 100)
  fixture.start()
  await fixture.pass(HOUR)
  expect((await fixture.runs()).map(({ status }) => status)).toEqual(["cancelled", "success"])
})

it("a server that is late for a tick does not cancel the run that another one created for it", async () => {
  const fixture = await setup({ t: async (_, { sleep }) => (await sleep(10 * MINUTE), null) })
  const { clock, store } = fixture
  const after = (ms: number): Promise<void> => new Promise((resolve) => clock.after(ms, resolve))
  await fixture.deploy('{ cron: "*/5 * * * *", overlap: cancel, end: 2026-01-01T00:11:00Z }')
  const first = fixture.newScheduler(clock, { fireTicks: (ticks) => after(100).then(() => store.fireTicks(ticks)) })
  const late = fixture.newScheduler(clock, {
    dueSchedules: async (limit) => {
      const due = await store.dueSchedules(limit)
      await after(1000)
      return due
    },
  })
  for (const scheduler of [first, late]) scheduler.start()
  await fixture.pass(HOUR)
  for (const scheduler of [first, late]) void scheduler.stop()
  expect((await fixture.runs()).map(({ status }) => status)).toEqual(["cancelled", "success"])
})

it("a tick fires once it has come again, when the clock is set back below it while it is due", async () => {
  const fixture = await setup()
  const { clock, store } = fixture
  await fixture.deploy('{ cron: "*/10 * * * *", catchup: all }')
  let isSetBack = false
  const scheduler = fixture.newScheduler(clock, {
    dueSchedules: async (limit) => {
      const due = await store.dueSchedules(limit)
      if (due.length > 0 && !isSetBack) {
        isSetBack = true
        clock.stepTimeOfDay(-MINUTE)
      }
      return due
    },
  })
  scheduler.start()
  await fixture.pass(25 * MINUTE)
  void scheduler.stop()
  expect(isSetBack).toBe(true)
  expect(await fixture.ticks()).toEqual(["00:10:00", "00:20:00"])
})

it("all of hundreds of schedules that are due at once fire", async () => {
  const fixture = await setup()
  for (let i = 0; i < 450; i++) await fixture.deploy('"0 * * * *"', "", `w${i}`)
  fixture.start()
  await fixture.pass(HOUR + 30_000)
  expect((await fixture.store.listRuns({ trigger: "schedule", limit: 5000 })).length).toBe(450)
})

describe("a schedule with depends_on_past", () => {
  it("starts a run after the success of the run of the previous tick, and explains what the run waits for", async () => {
    let broken = true
    const fixture = await setup({ t: () => (broken ? fail() : null) })
    await fixture.deploy('"0 * * * *"', "depends_on_past: true")
    fixture.start()
    await fixture.pass(3 * HOUR + MINUTE)
    const [first, second, third] = await fixture.runs()
    expect([first, second, third].map((run) => run!.status)).toEqual(["failed", "pending", "pending"])
    const why = async (run: RunRow) =>
      (await explain({ store: fixture.store, isAlive: () => true }, run.id)).map(({ sentence }) => sentence)
    expect(await why(second!)).toEqual([
      `The run waits for the success of run ${first!.id} of the previous tick, which is failed (depends_on_past); retry that run, or mark its tasks as successful.`,
    ])
    expect((await why(third!))[0]).toContain(`of run ${second!.id} of the previous tick, which is pending`)
    broken = false
    await fixture.engine.retry(first!.id, {})
    await fixture.pass(MINUTE)
    expect((await fixture.runs()).map(({ status }) => status)).toEqual(["success", "success", "success"])
  })

  it("also holds for the ticks that it catches up on, in their order", async () => {
    const fixture = await setup({ t: () => fail() })
    await fixture.deploy('{ cron: "0 * * * *", catchup: all }', "depends_on_past: true")
    await fixture.pass(3 * HOUR + MINUTE)
    fixture.start()
    await fixture.pass(MINUTE)
    const runs = (await fixture.runs()).toSorted((a, b) => (a.logicalDate! < b.logicalDate! ? -1 : 1))
    expect(runs.map(({ status }) => status)).toEqual(["failed", "pending", "pending"])
    expect(runs.slice(1).map(({ previousRun }) => previousRun)).toEqual(runs.slice(0, 2).map(({ id }) => id))
  })
})
