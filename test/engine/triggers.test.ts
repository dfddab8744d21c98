import { describe, expect, it } from "vitest"
import type { CausingRun } from "../../src/core/model/cause.ts"
import type { RunId } from "../../src/core/model/ids.ts"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { explain } from "../../src/engine/services/explain.ts"
import { Triggers } from "../../src/engine/services/triggers.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import type { RunRow } from "../../src/store/contract/store.ts"
import { fail, loseReply, setup as setupEngine, type Script } from "./setup.ts"

const setup = async (scripts: { [task: string]: Script } = {}) => {
  const fixture = await setupEngine(scripts)
  const { store, clock, engine, folder } = fixture
  const problems: string[] = []
  let started = 0
  const log = { info: () => {}, warn: () => {}, error: (fields: object) => void problems.push(JSON.stringify(fields)) }
  return {
    ...fixture,
    problems,
    /** Starts the service of another server. */
    start: (): Triggers => {
      const triggers = new Triggers({
        store: {
          ...store,
          // Runs share an existing folder: creating one takes real time, for which the virtual clock does not wait.
          useSuccesses: (uses) =>
            store.useSuccesses(
              uses.map((use) =>
                use.outcome !== null && "run" in use.outcome
                  ? { ...use, outcome: { run: { ...use.outcome.run, workingDir: folder } } }
                  : use,
              ),
            ),
        },
        evaluator: inlineEvaluator,
        clock,
        random: seededRandom(++started + 100),
        log,
        wake: () => engine.wake(),
      })
      engine.onEvent(({ type, status }) => type === "run" && status === "success" && triggers.wake())
      engine.onRecovered(() => triggers.wake())
      triggers.start()
      return triggers
    },
    /** Oldest first. */
    runs: async (workflow: string): Promise<RunRow[]> => (await store.listRuns({ workflow, limit: 1000 })).toReversed(),
  }
}

type Fixture = Awaited<ReturnType<typeof setup>>

const flow = (name: string, rest = ""): string => `name: ${name}\n${rest}\ntasks: { ${name}: { command: x } }`

const finish = async (fixture: Fixture, name: string): Promise<RunId> => {
  const id = await fixture.trigger(flow(name))
  await fixture.ended(id)
  await fixture.pass(100)
  return id
}

describe("a trigger after other workflows", () => {
  it("creates a run when the reply to the commit of a success is lost", async () => {
    const fixture = await setup()
    await fixture.deploy(flow("report", "triggers: [{ after: [extract] }]"))
    fixture.start()
    const lost = loseReply(fixture.store, (_, { closed }) => closed.length > 0)
    await finish(fixture, "extract")
    expect(lost()).toBe(true)
    expect(await fixture.runs("report")).toHaveLength(1)
  })

  it("creates a run when all of them have succeeded since its last run, which knows its causes", async () => {
    const fixture = await setup()
    await fixture.deploy(flow("report", "triggers: [{ after: [extract, load] }]"))
    fixture.start()
    await finish(fixture, "extract")
    const extract = await finish(fixture, "extract")
    expect(await fixture.runs("report")).toEqual([])
    const load = await finish(fixture, "load")
    expect(await fixture.runs("report")).toMatchObject([
      {
        trigger: "after",
        status: "success",
        createdBy: null,
        cause: {
          runs: [
            { id: extract, workflow: "extract" },
            { id: load, workflow: "load" },
          ],
        },
      },
    ])
    await finish(fixture, "load")
    expect(await fixture.runs("report")).toHaveLength(1)
    await finish(fixture, "extract")
    expect(await fixture.runs("report")).toHaveLength(2)
  })

  it("creates the same runs when it finds many successes at once, as after a restart", async () => {
    const fixture = await setup()
    await fixture.deploy(flow("report", "triggers: [{ after: [extract, load] }]"))
    await fixture.deploy(flow("mail", "triggers: [{ after: load }]"))
    const [, extract, load] = [
      await finish(fixture, "extract"),
      await finish(fixture, "extract"),
      await finish(fixture, "load"),
    ]
    const [extract2, load2] = [await finish(fixture, "extract"), await finish(fixture, "load")]
    const load3 = await finish(fixture, "load")
    fixture.start()
    await fixture.pass(100)
    const causes = async (name: string) =>
      (await fixture.runs(name))
        .map(({ cause }) => (cause as { runs: CausingRun[] }).runs.map(({ id }) => id).join())
        .toSorted()
    expect(await causes("report")).toEqual([`${extract},${load}`, `${extract2},${load2}`])
    expect(await causes("mail")).toEqual([load, load2, load3])
  })

  it("with `when: any` creates a run for each success of one of them", async () => {
    const fixture = await setup()
    await fixture.deploy(flow("report", "triggers: { after: [extract, load], when: any }"))
    fixture.start()
    const causes = [await finish(fixture, "extract"), await finish(fixture, "load"), await finish(fixture, "extract")]
    const runs = await fixture.runs("report")
    expect(runs.map(({ cause }) => cause)).toEqual(
      causes.map((id, i) => ({ runs: [{ id, workflow: ["extract", "load"][i % 2] }] })),
    )
  })

  it("passes the logical date on, and its params and tasks can read the cause", async () => {
    const fixture = await setup()
    const params = 'params: { day: "${{ run.date }}", from: "${{ run.cause.runs[0].workflow }}" }'
    await fixture.deploy(
      "name: report\nparams: { day: { type: date, required: true }, from: none }\n" +
        `triggers: { after: load, ${params} }\n` +
        'tasks: { t: { command: x, input: { cause: "${{ run.cause.runs[0].id }}" } } }',
    )
    await fixture.deploy(flow("mail", "triggers: { after: report }"))
    fixture.start()
    const { version } = await fixture.deploy(flow("load"))
    const logicalDate = "2026-01-31T23:30:00.000Z"
    const { run } = await fixture.engine.trigger({
      ...version,
      trigger: "schedule",
      timezone: "Europe/Berlin",
      logicalDate,
      params: {},
      priority: null,
      idempotencyKey: null,
      workingDir: fixture.folder,
    })
    await fixture.ended(run.id)
    await fixture.pass(100)
    expect(await fixture.runs("report")).toMatchObject([{ logicalDate, params: { day: "2026-02-01", from: "load" } }])
    expect(fixture.inputs("t")).toEqual([{ cause: run.id }])
    expect(await fixture.runs("mail")).toMatchObject([{ logicalDate, status: "success" }])
  })

  it("ignores failed runs", async () => {
    const fixture = await setup({ extract: () => fail() })
    await fixture.deploy(flow("report", "triggers: { after: extract }"))
    fixture.start()
    await finish(fixture, "extract")
    expect(await fixture.runs("report")).toEqual([])
  })

  it("creates the run of a success after a restart, and one run with several servers", async () => {
    const fixture = await setup()
    await fixture.deploy(flow("report", "triggers: { after: extract }"))
    await finish(fixture, "extract")
    const servers = [fixture.start(), fixture.start(), fixture.start()]
    await fixture.pass(100)
    expect(await fixture.runs("report")).toHaveLength(1)
    for (const server of servers) await server.stop()
    await finish(fixture, "extract")
    expect(await fixture.runs("report")).toHaveLength(1)
    fixture.start()
    await fixture.pass(100)
    expect(await fixture.runs("report")).toHaveLength(2)
  })

  it("keeps to max_active_runs of its workflow", async () => {
    const fixture = await setup({ report: (_, { sleep }) => sleep(60_000).then(() => null) })
    await fixture.deploy(flow("report", "max_active_runs: 1\ntriggers: { after: extract }"))
    fixture.start()
    await finish(fixture, "extract")
    await finish(fixture, "extract")
    expect((await fixture.runs("report")).map(({ status }) => status)).toEqual(["running", "pending"])
    await fixture.pass(130_000)
    expect((await fixture.runs("report")).map(({ status }) => status)).toEqual(["success", "success"])
  })

  it("whose params do not fit logs and keeps the problem, and creates no run", async () => {
    const fixture = await setup()
    const trigger = 'triggers: { after: extract, params: { day: "${{ run.cause.runs[0].workflow }}" } }'
    await fixture.deploy(flow("report", `params: { day: { type: date, required: true } }\n${trigger}`))
    fixture.start()
    await finish(fixture, "extract")
    expect(await fixture.runs("report")).toEqual([])
    expect(fixture.problems).toEqual([expect.stringContaining("day")])
    expect(await fixture.store.listTriggers("report")).toMatchObject([
      { problem: expect.stringMatching(/^the params of the trigger do not fit the workflow: .*day/) },
    ])
  })

  it("is named by explain", async () => {
    const fixture = await setup({ report: (_, { untilStopped }) => untilStopped() })
    await fixture.deploy(flow("report", "triggers: { after: extract }"))
    fixture.start()
    const cause = await finish(fixture, "extract")
    const [run] = await fixture.runs("report")
    const sentences = await explain({ store: fixture.store, isAlive: () => true }, run!.id)
    expect(sentences[0]!.sentence).toBe(`The run started after the success of extract (run ${cause}).`)
  })
})
