import { describe, expect, it } from "vitest"
import { backfill, type BackfillRequest } from "../../src/engine/services/backfill.ts"
import { deploy } from "../../src/engine/services/deploy.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import { setup as setupEngine } from "./world.ts"

const HOURLY = "{ cron: '0 * * * *', params: { at: '${{ run.logical_date }}' } }"

const setup = async (schedule = HOURLY, rest = "") => {
  const hour = 3_600_000
  const world = await setupEngine({
    t: async (_, { sleep }) => {
      await sleep(hour)
      return null
    },
  })
  const { clock, engine, folder } = world
  // Runs share a folder that is there: making one would take real time, and the virtual clock would not wait for it.
  const store: typeof world.store = {
    ...world.store,
    createRuns: (runs) => world.store.createRuns(runs.map((run) => ({ ...run, workingDir: folder }))),
  }
  const parsed = parseDefinition(
    `name: load\n${schedule === "" ? "" : `schedule: ${schedule}\n`}params: { at: { type: string, default: none } }\n${rest}\ntasks: { t: { command: x } }`,
  )
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  await deploy({ store, clock }, parsed)
  const random = seededRandom(7)
  return {
    ...world,
    fill: (request: Partial<BackfillRequest> = {}) =>
      world.until(
        backfill(
          { store, evaluator: inlineEvaluator, clock, random, wake: () => engine.look() },
          {
            workflow: "load",
            from: "2025-12-01T00:00:00Z",
            to: "2025-12-01T05:00:00Z",
            plan: false,
            maxActiveRuns: null,
            ...request,
          },
        ),
      ),
    runs: async () => (await store.listRuns({ workflow: "load", limit: 1000 })).toReversed(),
  }
}

const HOURS = ["00", "01", "02", "03", "04", "05"].map((hour) => `2025-12-01T${hour}:00:00.000Z`)

describe("a backfill", () => {
  it("makes one run per tick, both ends of the range included", async () => {
    const world = await setup()
    const { ticks, runs } = await world.fill()
    expect(ticks).toEqual(HOURS)
    const made = await Promise.all(runs.map((id) => world.store.getRun(id as never)))
    expect(made.map((run) => [run!.logicalDate, run!.params["at"], run!.trigger])).toEqual(
      HOURS.map((tick) => [tick, tick, "backfill"]),
    )
  })

  it("only lists the ticks when a plan is asked for", async () => {
    const world = await setup()
    expect(await world.fill({ plan: true })).toEqual({ ticks: HOURS, runs: [] })
    expect(await world.runs()).toEqual([])
  })

  it("of the same range again makes nothing twice", async () => {
    const world = await setup()
    const first = await world.fill()
    const again = await world.fill({ to: "2025-12-01T06:00:00Z" })
    expect(again.runs.slice(0, 6)).toEqual(first.runs)
    expect(await world.runs()).toHaveLength(7)
  })

  it.each([1, 2, 5])("has at most %i runs at once, oldest tick first, and all end", async (maxActiveRuns) => {
    const world = await setup()
    const { runs } = await world.fill({ maxActiveRuns })
    for (const id of runs) await world.ended(id as never)
    const ended = await world.runs()
    expect(ended.every(({ status }) => status === "success")).toBe(true)
    const active = ended.map(
      ({ startedAt }) => ended.filter((other) => other.startedAt! <= startedAt! && other.finishedAt! > startedAt!).length,
    )
    expect(Math.max(...active)).toBe(maxActiveRuns)
    const starts = ended.toSorted((a, b) => (a.logicalDate! < b.logicalDate! ? -1 : 1)).map(({ startedAt }) => startedAt!)
    expect(starts).toEqual(starts.toSorted())
  })

  it("keeps to max_active_runs of the workflow too", async () => {
    const world = await setup(HOURLY, "max_active_runs: 1")
    await world.fill({ maxActiveRuns: 5 })
    await world.pass(1000)
    expect((await world.runs()).filter(({ status }) => status === "running")).toHaveLength(1)
  })

  it("goes over all schedules of the workflow, and no further than their start", async () => {
    const world = await setup("[{ cron: '0 * * * *', start: 2025-12-01T04:00:00Z }, { cron: '30 3 * * *' }]")
    const { ticks } = await world.fill({ plan: true })
    expect(ticks.map((tick) => tick.slice(11, 16))).toEqual(["03:30", "04:00", "05:00"])
  })

  it.each([
    [{ workflow: "nobody" }, "there is no workflow nobody"],
    [{ from: "2000-01-01T00:00:00Z" }, "there are more than 10000 ticks in this range; choose a shorter one"],
  ])("of %j is refused and changes nothing", async (request, message) => {
    const world = await setup()
    await expect(world.fill(request)).rejects.toThrow(message)
    expect(await world.runs()).toEqual([])
  })

  it("of a workflow without a schedule is refused", async () => {
    const world = await setup("")
    await expect(world.fill()).rejects.toThrow("the workflow load has no schedule")
  })
})
