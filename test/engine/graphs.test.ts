import { describe, expect, it } from "vitest"
import { fail, setup } from "./setup.ts"

const diamond = `
name: diamond
tasks:
  a: { command: x }
  b: { command: x, depends_on: [a] }
  c: { command: x, depends_on: [a] }
  d: { command: x, depends_on: [b, c] }
`

describe("dependencies", () => {
  it("run a task after all of its upstream tasks, with their outputs as input", async () => {
    const fixture = await setup({ a: () => ({ n: 1 }), b: () => "left", c: () => ["right"] })
    const run = await fixture.ended(await fixture.trigger(diamond))
    expect(run.status).toBe("success")
    expect(run.tasks).toMatchObject({ success: 4, pending: 0, failed: 0 })
    expect(fixture.launched.map((each) => each.task)).toEqual(["a", "b", "c", "d"])
    expect(fixture.inputs("b")).toEqual([{ a: { n: 1 } }])
    expect(fixture.inputs("d")).toEqual([{ b: "left", c: ["right"] }])
  })

  it("skip the tasks downstream of a failure and fail the run", async () => {
    const fixture = await setup({ b: () => fail("no disk") })
    const runId = await fixture.trigger(diamond)
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect(await fixture.statuses(runId)).toEqual({ a: "success", b: "failed", c: "success", d: "skipped" })
    expect(await fixture.task(runId, "b")).toMatchObject({
      error: "no disk",
      exitCode: 1,
      attempt: 1,
      lastAttemptState: "failed",
    })
    expect((await fixture.task(runId, "d")).error).toBe("run_when all_success is not met: b failed")
  })

  it("emit the events of a task in order", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: one\ntasks: { a: { command: x } }")
    await fixture.ended(runId)
    expect(fixture.events.map((event) => [event.type, event.task ?? "", event.status])).toEqual([
      ["run", "", "running"],
      ["task", "a", "dispatched"],
      ["task", "a", "running"],
      ["task", "a", "success"],
      ["run", "", "success"],
    ])
  })
})

describe("run_when and if", () => {
  const rules = (rule: string): string => `
name: rules
tasks:
  a: { command: x }
  b: { command: x }
  last: { command: x, depends_on: [a, b], run_when: ${rule} }
`
  it.each([
    ["all_success", "success", "skipped", "skipped"],
    ["all_done", "success", "success", "success"],
    ["any_failed", "skipped", "success", "success"],
    ["all_failed", "skipped", "skipped", "success"],
    ["any_success", "success", "success", "skipped"],
    ["none_failed", "success", "skipped", "skipped"],
  ])("%s: after success %s, after one failure %s, after two %s", async (rule, none, one, both) => {
    const seen: string[] = []
    for (const failing of [[], ["a"], ["a", "b"]]) {
      const fixture = await setup(Object.fromEntries(failing.map((name) => [name, () => fail()])))
      const runId = await fixture.trigger(rules(rule))
      await fixture.ended(runId)
      seen.push((await fixture.statuses(runId))["last"]!)
    }
    expect(seen).toEqual([none, one, both])
  })

  it("skip a task whose `if` is false, and run its downstream tasks", async () => {
    const fixture = await setup()
    const text = `
name: cond
params: { limit: 5 }
tasks:
  maybe: { command: x, if: params.limit > 10 }
  after: { command: x, depends_on: [maybe] }
`
    const small = await fixture.trigger(text)
    expect((await fixture.ended(small)).status).toBe("success")
    expect(await fixture.statuses(small)).toEqual({ maybe: "skipped", after: "success" })
    const large = await fixture.trigger(text, { limit: 11 })
    await fixture.ended(large)
    expect(await fixture.statuses(large)).toEqual({ maybe: "success", after: "success" })
  })

  it("pass a failure on through the tasks that were skipped because of it", async () => {
    const fixture = await setup({ a: () => fail() })
    const runId = await fixture.trigger(`
name: cascade
tasks:
  a: { command: x }
  b: { command: x, depends_on: [a] }
  c: { command: x, depends_on: [b] }
  rescue: { command: x, depends_on: [c], run_when: any_failed }
`)
    await fixture.ended(runId)
    expect(await fixture.statuses(runId)).toEqual({ a: "failed", b: "skipped", c: "skipped", rescue: "success" })
  })

  it("fail a task whose expression cannot be evaluated, and name the expression", async () => {
    const fixture = await setup({ a: () => ({}) })
    const runId = await fixture.trigger(`
name: bad
tasks:
  a: { command: x }
  b: { command: x, depends_on: [a], if: tasks.a.output.rows > 3 }
`)
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect((await fixture.task(runId, "b")).error).toContain("tasks.a.output.rows > 3")
  })
})

describe("input, env and secrets", () => {
  it("fail the task at once when an expression reads an output of more than 16 MiB, but may read its status", async () => {
    const big = "x".repeat(17 * 1024 * 1024)
    const fixture = await setup({ a: () => big, b: () => 1, c: () => 1 })
    const runId = await fixture.trigger(`
name: big
tasks:
  a: { command: x }
  b: { command: x, depends_on: [a], if: size(tasks.a.output) > 1, retries: 3 }
  c: { command: x, depends_on: [a], if: tasks.a.status == "success" }
`)
    await fixture.ended(runId)
    expect(await fixture.task(runId, "c")).toMatchObject({ status: "success" })
    expect(await fixture.task(runId, "b")).toMatchObject({
      status: "failed",
      attempt: 0,
      error: expect.stringMatching(
        /reads the output of a, which has 17825794 bytes and more than 16 MiB; compute it in a task/,
      ) as string,
    })
  })

  it("merge the task's own input over the upstream outputs and keep the types", async () => {
    const fixture = await setup({ a: () => ({ rows: 3 }) })
    const runId = await fixture.trigger(
      `
name: inputs
params: { day: { type: string, required: true } }
env: { TOKEN: { secret: API_TOKEN }, DAY: "\${{ params.day }}" }
tasks:
  a: { command: x }
  b:
    depends_on: [a]
    command: [load, "\${{ params.day }}"]
    input: { a: "\${{ tasks.a.output.rows + 1 }}", text: "rows: \${{ tasks.a.output.rows }}" }
`,
      { day: "2026-01-02" },
    )
    await fixture.ended(runId)
    expect(fixture.inputs("b")).toEqual([{ a: 4, text: "rows: 3" }])
    const assignment = fixture.launched[1]!
    expect(assignment.command).toEqual({ argv: ["load", "2026-01-02"] })
    expect(assignment.env).toMatchObject({ TOKEN: "s3cret", DAY: "2026-01-02" })
  })

  it("fail a task whose secret is missing, and explain how to set it", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: s\ntasks: { a: { command: x, env: { X: { secret: NOPE } } } }")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe(
      "there is no secret NOPE where Ork runs: looked for the variable ORK_SECRET_NOPE, a file NOPE in ORK_SECRETS_DIR, NOPE under secrets in ork.yaml",
    )
  })

  it("fail an attempt whose output does not fit its schema", async () => {
    const fixture = await setup({ a: () => ({ rows: "many" }) })
    const runId = await fixture.trigger(`
name: typed
types: { Rows: { type: object, required: [rows], properties: { rows: { type: integer } } } }
tasks: { a: { command: x, output: Rows } }
`)
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({
      status: "failed",
      error: expect.stringContaining("does not fit its schema"),
    })
  })
})
