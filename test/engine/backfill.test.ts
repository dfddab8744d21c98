import { describe, expect, it } from "vitest"
import { backfill, type BackfillRequest } from "../../src/engine/services/backfill.ts"
import { deploy } from "../../src/engine/services/deploy.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { parseDefinition } from "../../src/definition/parse.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import { setup as setupEngine } from "./setup.ts"

const HOURLY = "{ cron: '0 * * * *', params: { at: '${{ run.logical_date }}' } }"

const setup = async (schedule = HOURLY, rest = "") => {
  const hour = 3_600_000
  const fixture = await setupEngine({
    t: async (_, { sleep }) => {
      await sleep(hour)
      return null
    },
  })
  const { clock, engine, folder } = fixture
  // Runs share an existing folder: creating one takes real time, for which the virtual clock does not wait.
  const store: typeof fixture.store = {
    ...fixture.store,
    createRuns: (runs) => fixture.store.createRuns(runs.map((run) => ({ ...run, workingDir: folder }))),
  }
  const parsed = parseDefinition(
    `name: load\n${schedule === "" ? "" : `schedule: ${schedule}\n`}params: { at: { type: string, default: none } }\n${rest}\ntasks: { t: { command: x } }`,
  )
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  await deploy(store, parsed)
  const random = seededRandom(7)
  return {
    ...fixture,
    fill: (request: Partial<BackfillRequest> = {}) =>
      fixture.until(
        backfill(
          { store, evaluator: inlineEvaluator, clock, random, wake: () => engine.wake() },
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
  it("creates one run per tick, including both ends of the range", async () => {
    const fixture = await setup()
    const { ticks, runs } = await fixture.fill()
    expect(ticks).toEqual(HOURS)
    const created = await Promise.all(runs.map((id) => fixture.store.getRun(id as never)))
    expect(created.map((run) => [run!.logicalDate, run!.params["at"], run!.trigger])).toEqual(
      HOURS.map((tick) => [tick, tick, "backfill"]),
    )
  })

  it("takes days as days of the schedule's time zone, and includes both", async () => {
    const fixture = await setup(
      '[{ cron: "30 */12 * * *", timezone: Asia/Tokyo }, { cron: "0 0 * * *", timezone: America/New_York }]',
    )
    const { ticks } = await fixture.fill({ from: "2025-12-01", to: "2025-12-02", plan: true })
    expect(ticks.map((tick) => tick.slice(5, 16))).toEqual([
      "11-30T15:30",
      "12-01T03:30",
      "12-01T05:00",
      "12-01T15:30",
      "12-02T03:30",
      "12-02T05:00",
    ])
  })

  it("of one day contains the ticks of that day", async () => {
    const fixture = await setup("{ cron: '0 2 * * *', timezone: Europe/Berlin }")
    expect((await fixture.fill({ from: "2025-12-01", to: "2025-12-01" })).ticks).toEqual(["2025-12-01T01:00:00.000Z"])
  })

  it("only lists the ticks when a plan is requested", async () => {
    const fixture = await setup()
    expect(await fixture.fill({ plan: true })).toEqual({ ticks: HOURS, runs: [] })
    expect(await fixture.runs()).toEqual([])
  })

  it("creates no run twice when the range is repeated", async () => {
    const fixture = await setup()
    const first = await fixture.fill()
    const again = await fixture.fill({ to: "2025-12-01T06:00:00Z" })
    expect(again.runs.slice(0, 6)).toEqual(first.runs)
    expect(await fixture.runs()).toHaveLength(7)
  })

  it("continues after the runs of an earlier backfill when runs depend on the past", async () => {
    const fixture = await setup(HOURLY, "depends_on_past: true")
    const first = await fixture.fill({ to: HOURS[1]! })
    const again = await fixture.fill({ to: HOURS[3]! })
    expect(again.runs.slice(0, 2)).toEqual(first.runs)
    const runs = await Promise.all(again.runs.map((id) => fixture.store.getRun(id as never)))
    expect(runs.map((run) => [run!.status, run!.previousRun])).toEqual([
      ["running", null],
      ["pending", again.runs[0]],
      ["pending", again.runs[1]],
      ["pending", again.runs[2]],
    ])
  })

  it.each([1, 2, 5])("runs at most %i runs at once, oldest tick first, until all have finished", async (maxActiveRuns) => {
    const fixture = await setup()
    const { runs } = await fixture.fill({ maxActiveRuns })
    for (const id of runs) await fixture.ended(id as never)
    const ended = await fixture.runs()
    expect(ended.every(({ status }) => status === "success")).toBe(true)
    const active = ended.map(
      ({ startedAt }) => ended.filter((other) => other.startedAt! <= startedAt! && other.finishedAt! > startedAt!).length,
    )
    expect(Math.max(...active)).toBe(maxActiveRuns)
    const starts = ended.toSorted((a, b) => (a.logicalDate! < b.logicalDate! ? -1 : 1)).map(({ startedAt }) => startedAt!)
    expect(starts).toEqual(starts.toSorted())
  })

  it("respects max_active_runs of the workflow", async () => {
    const fixture = await setup(HOURLY, "max_active_runs: 1")
    await fixture.fill({ maxActiveRuns: 5 })
    await fixture.pass(1000)
    expect((await fixture.runs()).filter(({ status }) => status === "running")).toHaveLength(1)
  })

  it("covers all schedules of the workflow, from their start on", async () => {
    const fixture = await setup("[{ cron: '0 * * * *', start: 2025-12-01T04:00:00Z }, { cron: '30 3 * * *' }]")
    const { ticks } = await fixture.fill({ plan: true })
    expect(ticks.map((tick) => tick.slice(11, 16))).toEqual(["03:30", "04:00", "05:00"])
  })

  it.each([
    [{ workflow: "nobody" }, "there is no workflow nobody"],
    [{ from: "2000-01-01T00:00:00Z" }, "there are more than 10000 ticks in this range; choose a shorter one"],
  ])("is rejected for %j and changes nothing", async (request, message) => {
    const fixture = await setup()
    await expect(fixture.fill(request)).rejects.toThrow(message)
    expect(await fixture.runs()).toEqual([])
  })

  it("is rejected for a workflow without a schedule", async () => {
    const fixture = await setup("")
    await expect(fixture.fill()).rejects.toThrow("the workflow load has no schedule")
  })
})
