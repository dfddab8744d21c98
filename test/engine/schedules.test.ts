import { describe, expect, it } from "vitest"
import type { Clock } from "../../src/core/model/ports.ts"
import { deploy, nextFiringsOf } from "../../src/engine/services/deploy.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { Scheduler } from "../../src/engine/services/scheduler.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import { setup as setupEngine, type Script } from "./world.ts"

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** The virtual clock begins at 2026-01-01T00:00:00Z, a Thursday. */
const setup = async (scripts: { [task: string]: Script } = {}) => {
  const world = await setupEngine(scripts)
  const { clock, engine, folder } = world
  // Runs share a folder that is there: making one would take real time, and the virtual clock would not wait for it.
  const store: typeof world.store = {
    ...world.store,
    fireTicks: (ticks) =>
      world.store.fireTicks(ticks.map((tick) => ({ ...tick, run: tick.run && { ...tick.run, workingDir: folder } }))),
  }
  const problems: string[] = []
  let started = 0
  const newScheduler = (own: Clock = clock): Scheduler =>
    new Scheduler({
      store,
      evaluator: inlineEvaluator,
      clock: own,
      random: seededRandom(++started + 100),
      log: {
        info: () => {},
        warn: (fields) => void problems.push(JSON.stringify(fields)),
        error: (fields) => void problems.push(JSON.stringify(fields)),
      },
      cancel: (runId) => engine.cancel(runId),
      wake: () => engine.look(),
    })
  return {
    ...world,
    problems,
    newScheduler,
    start: (own?: Clock): Scheduler => {
      const scheduler = newScheduler(own)
      scheduler.start()
      return scheduler
    },
    deploy: async (schedule: string, rest = "", name = "tick") => {
      const parsed = parseDefinition(`name: ${name}\nschedule: ${schedule}\n${rest}\ntasks: { t: { command: x } }`)
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
      await deploy({ store, clock }, parsed)
      return parsed.workflow
    },
    /** Oldest first. */
    runs: async (name = "tick") => (await store.listRuns({ workflow: name, limit: 1000 })).toReversed(),
    ticks: async (name = "tick") =>
      (await store.listRuns({ workflow: name, limit: 1000 })).map((run) => run.logicalDate!.slice(11, 19)).toSorted(),
  }
}

describe("a schedule", () => {
  it("makes one run per tick, and its params know the tick", async () => {
    const world = await setup()
    await world.deploy(
      '{ cron: "*/10 * * * *", timezone: America/New_York, params: { day: "${{ run.date }}" } }',
      "params: { day: { type: string, default: none } }",
    )
    world.start()
    await world.pass(35 * MINUTE)
    const runs = await world.runs()
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
    const world = await setup()
    await world.deploy('"*/20 * * * * *"')
    world.start()
    await world.pass(MINUTE + 1)
    expect(await world.ticks()).toEqual(["00:00:20", "00:00:40", "00:01:00"])
  })

  it("is one of several of its workflow", async () => {
    const world = await setup()
    await world.deploy('[{ cron: "0 * * * *" }, { cron: "30 * * * *" }]')
    world.start()
    await world.pass(2 * HOUR + 1)
    expect(await world.ticks()).toEqual(["00:30:00", "01:00:00", "01:30:00", "02:00:00"])
  })

  it("fires once whatever the number of schedulers", async () => {
    const world = await setup()
    await world.deploy('"* * * * *"')
    for (let i = 0; i < 3; i++) world.start()
    await world.pass(5 * MINUTE + 1)
    expect(await world.ticks()).toEqual(["00:01:00", "00:02:00", "00:03:00", "00:04:00", "00:05:00"])
  })

  it("fires once whatever restarts", async () => {
    const world = await setup()
    await world.deploy('{ cron: "* * * * *", catchup: all }')
    for (let i = 0; i < 6; i++) {
      const scheduler = world.start()
      await world.pass(30_000)
      scheduler.stop()
    }
    expect(await world.ticks()).toEqual(["00:01:00", "00:02:00"])
  })

  it("fires though the clock here is behind the store's", async () => {
    const world = await setup()
    await world.deploy('"* * * * *"')
    world.start({ now: () => world.clock.now() - 5000, after: (ms, fn) => world.clock.after(ms, fn) })
    await world.pass(2 * MINUTE + 1)
    expect(await world.ticks()).toEqual(["00:01:00", "00:02:00"])
  })

  it("rests while its workflow is paused, and does not make up for that", async () => {
    const world = await setup()
    const workflow = await world.deploy('{ cron: "* * * * *", catchup: all }')
    const pause = (paused: boolean) =>
      world.store.setWorkflowPaused({ name: "tick", paused, nextAt: nextFiringsOf(workflow, world.clock.now()) })
    const scheduler = world.start()
    await world.pass(MINUTE + 1)
    await pause(true)
    scheduler.wake()
    await world.pass(5 * MINUTE)
    await pause(false)
    scheduler.wake()
    await world.pass(MINUTE)
    expect(await world.ticks()).toEqual(["00:01:00", "00:07:00"])
  })

  it("whose params do not fit makes no run, says so, and goes on", async () => {
    const world = await setup()
    await world.deploy(
      "{ cron: \"* * * * *\", params: { n: \"${{ run.logical_date.endsWith('00:01:00.000Z') ? 'x' : '2' }}\" } }",
      "params: { n: { type: string, enum: ['2'], default: '2' } }",
    )
    world.start()
    await world.pass(2 * MINUTE + 1)
    expect(await world.ticks()).toEqual(["00:02:00"])
    expect(world.problems).toHaveLength(1)
  })

  it("ends with its end", async () => {
    const world = await setup()
    await world.deploy('{ cron: "* * * * *", end: 2026-01-01T00:03:00Z }')
    world.start()
    await world.pass(HOUR)
    expect(await world.ticks()).toEqual(["00:01:00", "00:02:00"])
    expect(await world.store.nextTickMs()).toBeNull()
  })
})

describe("ticks that were missed", () => {
  it.each([
    ["none", []],
    ["latest", ["05:00:00"]],
    ["all", ["01:00:00", "02:00:00", "03:00:00", "04:00:00", "05:00:00"]],
  ])("while nobody looked are made up for by catchup: %s", async (catchup, made) => {
    const world = await setup()
    await world.deploy(`{ cron: "0 * * * *", catchup: ${catchup} }`)
    await world.pass(5 * HOUR + 30 * MINUTE)
    world.start()
    await world.pass(1000)
    expect(await world.ticks()).toEqual(made)
    await world.pass(HOUR)
    expect(await world.ticks()).toEqual([...made, "06:00:00"])
  })

  it("by up to a minute run all the same", async () => {
    const world = await setup()
    await world.deploy('"0 * * * *"')
    await world.pass(HOUR + 59_000)
    world.start()
    await world.pass(500)
    expect(await world.ticks()).toEqual(["01:00:00"])
  })

  it("are capped at a hundred, the newest", async () => {
    const world = await setup()
    await world.deploy('{ cron: "* * * * *", catchup: all }')
    await world.pass(300 * MINUTE)
    world.start()
    await world.pass(1000)
    const ticks = await world.ticks()
    expect([ticks.length, ticks[0], ticks.at(-1)]).toEqual([100, "03:21:00", "05:00:00"])
  })
})

describe("a tick while an earlier run of the schedule is active", () => {
  /** Every minute, and each run takes two and a half. */
  const slow: Script = async (_, { sleep }) => {
    await sleep(2.5 * MINUTE)
    return null
  }
  const overlapping = async (overlap: string) => {
    const world = await setup({ t: slow })
    await world.deploy(`{ cron: "* * * * *", overlap: ${overlap}, end: 2026-01-01T00:05:00Z }`)
    world.start()
    await world.pass(HOUR)
    return (await world.runs()).map(({ logicalDate, startedAt, status }) => [
      logicalDate!.slice(14, 16),
      startedAt?.slice(14, 19),
      status,
    ])
  }

  it("runs beside it with overlap: allow", async () => {
    expect(await overlapping("allow")).toEqual([
      ["01", "01:00", "success"],
      ["02", "02:00", "success"],
      ["03", "03:00", "success"],
      ["04", "04:00", "success"],
    ])
  })

  it("is passed over with overlap: skip", async () => {
    expect(await overlapping("skip")).toEqual([
      ["01", "01:00", "success"],
      ["04", "04:00", "success"],
    ])
  })

  it("waits for it with overlap: queue", async () => {
    expect(await overlapping("queue")).toEqual([
      ["01", "01:00", "success"],
      ["02", "03:30", "success"],
      ["03", "06:00", "success"],
      ["04", "08:30", "success"],
    ])
  })

  it("takes its place with overlap: cancel", async () => {
    expect(await overlapping("cancel")).toEqual([
      ["01", "01:00", "cancelled"],
      ["02", "02:00", "cancelled"],
      ["03", "03:00", "cancelled"],
      ["04", "04:00", "success"],
    ])
  })
})

it("hundreds of schedules that are due at once all fire", async () => {
  const world = await setup()
  for (let i = 0; i < 450; i++) await world.deploy('"0 * * * *"', "", `w${i}`)
  world.start()
  await world.pass(HOUR + 30_000)
  expect((await world.store.listRuns({ trigger: "schedule", limit: 5000 })).length).toBe(450)
})
